package render

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func held(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverHold }

func TestAGateChangesNothingOfItsDesktop(t *testing.T) {
	for name, change := range map[string]func(*api.SessionAssignment){"small": held, "full": everything, "without resources": longNames} {
		t.Run(name, func(t *testing.T) {
			a := assignment(change, held)
			plain, gated := Pod(a), GatedPod(a, testGuard)
			gate := Gate(gated)
			if gate == nil || Gate(plain) != nil || Gate(GuardedPod(a, testGuard)) != nil || Guarded(gated) {
				t.Fatal("a Pod with a gate is not recognized")
			}
			gated.Spec.InitContainers = nil
			if d := cmp.Diff(plain, gated); d != "" {
				t.Errorf("behind a gate it is another Pod (-without +behind):\n%s", d)
			}
			if gate.RestartPolicy != nil || gate.StartupProbe != nil || len(gate.Ports) > 0 {
				t.Errorf("the gate would stay beside the desktop: %+v", gate)
			}
		})
	}
}

// A namespace that has a quota requires requests and limits of each container.
func TestAGateHasTheResourcesThatAQuotaRequires(t *testing.T) {
	a := assignment(gpu, held)
	r := Gate(GatedPod(a, testGuard)).Resources
	if d := cmp.Diff(r.Requests, r.Limits); d != "" {
		t.Errorf("(-requests +limits):\n%s", d)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		own := a.Spec.Desktop.Resources[name]
		if got := r.Limits[name]; got.IsZero() || got.Cmp(own) > 0 {
			t.Errorf("%s: %s, of the desktop's %s", name, got.String(), own.String())
		}
	}
	if len(r.Limits) != 2 {
		t.Errorf("it takes more than it needs: %v", r.Limits)
	}
}

func TestAGateRequestsItsOwnAssignmentOnly(t *testing.T) {
	a := assignment(held)
	got := Gate(GatedPod(a, testGuard)).Args
	want := []string{"gate", "--lease-url=" + testGuard.LeaseURL, "--key=AAAA", "--namespace=team", "--name=web-0123456789", "--uid=assignment-uid", "--time-factor=1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
