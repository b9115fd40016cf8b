package denied_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

var pod = schema.GroupResource{Resource: "pods"}

func TestDenials(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(pod, "x", errors.New("exceeded quota"))
	cases := map[string]struct {
		err  error
		want bool
	}{
		"invalid":          {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), true},
		"forbidden":        {quota, true},
		"wrapped":          {fmt.Errorf("creating: %w", quota), true},
		"bad request":      {apierrors.NewBadRequest("x"), true},
		"webhook away":     {apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`)), true},
		"no such kind":     {apierrors.NewNotFound(pod, "x"), true},
		"a storage error":  {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), false},
		"an existing name": {apierrors.NewAlreadyExists(pod, "x"), false},
		"conflict":         {apierrors.NewConflict(pod, "x", nil), false},
		"too many":         {apierrors.NewTooManyRequests("x", 1), false},
		"timeout":          {apierrors.NewTimeoutError("x", 1), false},
		"server timeout":   {apierrors.NewServerTimeout(pod, "create", 1), false},
		"unavailable":      {apierrors.NewServiceUnavailable("x"), false},
		"unauthorized":     {apierrors.NewUnauthorized("x"), false},
		"no answer":        {errors.New("connection refused"), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := denied.Is(c.err); got != c.want {
				t.Errorf("denied.Is(%v) = %t, want %t", c.err, got, c.want)
			}
		})
	}
}

func TestAnExplanationNamesCauseAndRemedy(t *testing.T) {
	t.Parallel()
	for remedy, err := range map[string]error{
		"raise the quota":          apierrors.NewForbidden(pod, "x", errors.New("exceeded quota: compute")),
		"grant this permission":    apierrors.NewForbidden(pod, "x", errors.New(`User "hub" cannot create resource "pods" in API group ""`)),
		"does not answer":          apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`)),
		"exempt vdi-fleet from it": apierrors.NewBadRequest(`admission webhook "x" denied the request: no`),
		"install the missing CRDs": &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "VDIHome"}, SearchedVersions: []string{"v1alpha1"}},
		"restore what is missing":  apierrors.NewNotFound(pod, "x"),
		"make the session":         apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"change the session":       apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil),
	} {
		if text := denied.Explain(fmt.Errorf("creating it: %w", err)); !strings.HasPrefix(text, "creating it: ") || !strings.Contains(text, remedy) {
			t.Errorf("Explain(%v) = %q, without %q", err, text, remedy)
		}
	}
}
