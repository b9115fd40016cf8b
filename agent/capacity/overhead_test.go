package capacity

import (
	"strings"
	"testing"
)

// sandboxed sets a runtime class with an overhead of 500m for each Pod.
func sandboxed(m *Model) {
	m.SetRuntimeClasses(map[string]RuntimeClass{"gvisor": {Overhead: Resources{"cpu": 500}}})
	m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.RuntimeClassName = "gvisor" })})
}

func TestSlotsIncludeTheOverheadOfTheRuntimeClass(t *testing.T) {
	got := capacityOf(t, scene(nodes(machine("a", 4000, 64)), sandboxed))
	if got.Slots != 2 || got.Overhead["cpu"] != 500 {
		t.Errorf("%d slots with overhead %v, want 2 of 1.5 cpu on 4", got.Slots, got.Overhead)
	}
	a := assigned("s", resources(1000, 2))
	a.RuntimeClass = "gvisor"
	m := scene(nodes(machine("a", 4000, 64)), sandboxed)
	m.SetAssignment(a)
	if got := capacityOf(t, m).Slots; got != 1 {
		t.Errorf("%d slots beside an assignment that will take 1.5 cpu, want 1", got)
	}
}

func TestRefusesASessionWhoseOverheadDoesNotFit(t *testing.T) {
	m := scene(nodes(machine("a", 1000, 64)), sandboxed)
	a := assigned("s", resources(1000, 2))
	if why := m.Unschedulable(a); why != "" {
		t.Errorf("without a runtime class: %s", why)
	}
	a.RuntimeClass = "gvisor"
	if why := m.Unschedulable(a); !strings.Contains(why, "cpu") {
		t.Errorf("1.5 cpu on a node of 1: %q", why)
	}
}
