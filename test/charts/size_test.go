package charts

import (
	"slices"
	"testing"
)

// docs/operators.md, Size the hub, has these values.
func TestTheSizeSetsTheHubsMemory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args             []string
		limit            string
		goMemLimit, gogc string
	}{
		"the default":        {nil, "695Mi", "625MiB", ""},
		"a small fleet":      {[]string{"--set", "size.members=10,size.sessions=1000"}, "173Mi", "155MiB", ""},
		"a large fleet":      {[]string{"--set", "size.members=1000,size.sessions=100000"}, "1510Mi", "1359MiB", "30"},
		"a limit of its own": {[]string{"--set", "size.sessions=100000,resources.limits.memory=4Gi"}, "4Gi", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := deploymentOf(t, variant{"size: " + name, hubChart, slices.Concat(hubRequired, tc.args)}).Spec.Template.Spec.Containers[0]
			got := map[string]string{"limit": container.Resources.Limits.Memory().String()}
			for _, e := range container.Env {
				got[e.Name] = e.Value
			}
			for key, want := range map[string]string{"limit": tc.limit, "GOMEMLIMIT": tc.goMemLimit, "GOGC": tc.gogc} {
				if got[key] != want {
					t.Errorf("%s is %q, want %q", key, got[key], want)
				}
			}
		})
	}
}
