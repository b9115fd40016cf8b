package conflict

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestRetry(t *testing.T) {
	of := schema.GroupResource{Resource: "leases"}
	changed, exists := apierrors.NewConflict(of, "term", nil), apierrors.NewAlreadyExists(of, "term")
	timeout := fmt.Errorf("reading the Lease: %w", context.DeadlineExceeded)
	ended := fmt.Errorf("writing the Lease: %w", context.Canceled)
	for _, tc := range []struct {
		name    string
		results []error
		want    error
	}{
		{"done", []error{nil}, nil},
		{"done after conflicts", []error{changed, exists, nil}, nil},
		{"conflicts only", []error{changed, changed, exists}, exists},
		{"refused", []error{apierrors.NewForbidden(of, "term", nil)}, apierrors.NewForbidden(of, "term", nil)},
		{"a timeout", []error{timeout}, timeout},
		{"a timeout after a conflict", []error{changed, timeout}, timeout},
		{"the end of the process", []error{ended}, ended},
	} {
		calls := 0
		err := Retry(wait.Backoff{Steps: 3}, func() error {
			calls++
			return tc.results[calls-1]
		})
		if (err == nil) != (tc.want == nil) || err != nil && err.Error() != tc.want.Error() || calls != len(tc.results) {
			t.Errorf("%s: %v after %d calls, want %v after %d", tc.name, err, calls, tc.want, len(tc.results))
		}
	}
	if err := Retry(wait.Backoff{Steps: 3}, func() error { return timeout }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is not wrapped: %v", err)
	}
}
