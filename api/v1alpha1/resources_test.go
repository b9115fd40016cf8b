package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list returns resources from pairs of name and quantity.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestWhatIsNotAskedForIsTheDefaultElseTheMaximum(t *testing.T) {
	for name, tc := range map[string]struct {
		template        TemplateResources
		requested, want corev1.ResourceList
	}{
		"nothing named":        {want: list("ephemeral-storage", "4Gi")},
		"a default":            {template: TemplateResources{Default: list("cpu", "1", "ephemeral-storage", "1Gi")}, want: list("cpu", "1", "ephemeral-storage", "1Gi")},
		"a maximum alone":      {template: TemplateResources{Max: list("cpu", "4", "ephemeral-storage", "9Gi")}, want: list("cpu", "4", "ephemeral-storage", "9Gi")},
		"a default and a max":  {template: TemplateResources{Default: list("cpu", "1"), Max: list("cpu", "4")}, want: list("cpu", "1", "ephemeral-storage", "4Gi")},
		"devices, by a max":    {template: TemplateResources{Max: list("nvidia.com/gpu", "2")}, want: list("ephemeral-storage", "4Gi")},
		"no devices requested": {template: TemplateResources{Default: list("nvidia.com/gpu", "1")}, requested: list("nvidia.com/gpu", "0"), want: list("nvidia.com/gpu", "0", "ephemeral-storage", "4Gi")},
		"a request": {template: TemplateResources{Default: list("cpu", "1", "memory", "1Gi"), Max: list("cpu", "4")}, requested: list("cpu", "2", "ephemeral-storage", "1Gi"),
			want: list("cpu", "2", "memory", "1Gi", "ephemeral-storage", "1Gi")},
	} {
		if diff := cmp.Diff(tc.want, tc.template.For(tc.requested)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWithoutLimit(t *testing.T) {
	for want, l := range map[corev1.ResourceName]corev1.ResourceList{
		"":                  list("cpu", "1n", "memory", "1", "nvidia.com/gpu", "0"),
		"cpu":               list("cpu", "0", "memory", "0"),
		"memory":            list("cpu", "1", "memory", "0Gi"),
		"ephemeral-storage": list("ephemeral-storage", "-1"),
	} {
		if got := WithoutLimit(l); got != want {
			t.Errorf("%v: got %q", l, got)
		}
	}
}
