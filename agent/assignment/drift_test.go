package assignment

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// edit changes the spec as an API server does on a request.
func (b *fixture) edit(uid string, change func(*v1alpha1.SessionAssignment)) (before, after *v1alpha1.SessionAssignment) {
	b.t.Helper()
	before = b.get(uid)
	after = before.DeepCopy()
	change(after)
	if err := b.live.Update(b.t.Context(), after); err != nil {
		b.t.Fatal(err)
	}
	return before, b.get(uid)
}

func (b *fixture) reported(uid string) string { return report(b.get(uid)).GetSpecHash() }

func TestSpecDriftIsReportedAndRepaired(t *testing.T) {
	b := newFixture(t)
	wanted := assignment("u1", 1, "ada")
	hash := convert.SpecHash(&wanted.Spec)
	b.Put(order(wanted))
	b.expect("STORED e1")
	if got := b.reported("u1"); got != hash {
		t.Fatalf("reported %q, want the hub's %q", got, hash)
	}
	for range 2 {
		before, after := b.edit("u1", func(a *v1alpha1.SessionAssignment) { a.Spec.Desktop.Image = "mine" })
		if got := b.reported("u1"); got != editedHash {
			t.Errorf("a changed spec is reported as %q", got)
		}
		b.results.marked = 0
		b.changed(before, after)
		if b.results.marked != 1 {
			t.Error("the drift is not reported")
		}
		b.Put(order(wanted))
		b.expect("STORED e1")
		if got := b.get("u1"); got.Spec.Desktop.Image != "x" || b.reported("u1") != hash {
			t.Errorf("image %q, reported %q", got.Spec.Desktop.Image, b.reported("u1"))
		}
	}
}

func TestSpecDriftThatIsRevertedIsSettledByOneOrder(t *testing.T) {
	b := newFixture(t)
	wanted := assignment("u1", 1, "ada")
	b.Put(order(wanted))
	b.expect("STORED e1")
	b.edit("u1", func(a *v1alpha1.SessionAssignment) { a.Spec.User = "eve" })
	b.edit("u1", func(a *v1alpha1.SessionAssignment) { a.Spec.User = "ada" })
	b.Put(order(wanted))
	b.expect("STORED e1")
	if got := b.reported("u1"); got != convert.SpecHash(&wanted.Spec) {
		t.Errorf("reported %q: the hub sends it forever", got)
	}
}

func TestOrdersAreNotReportedAsDrift(t *testing.T) {
	for name, prepare := range map[string]func(*fixture) *v1alpha1.SessionAssignment{
		"a revision by the hub": func(b *fixture) *v1alpha1.SessionAssignment {
			b.Put(order(assignment("u1", 1, "bob")))
			return assignment("u1", 1, "ada")
		},
		"the same spec under another hash": func(b *fixture) *v1alpha1.SessionAssignment {
			b.Put(order(assignment("u1", 1, "ada")))
			a := assignment("u1", 1, "ada")
			a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: "of-another-hub"}
			return a
		},
		"a quantity written otherwise": func(b *fixture) *v1alpha1.SessionAssignment {
			a := assignment("u1", 1, "ada")
			a.Spec.Desktop.Home.Size = resource.NewQuantity(1<<30, resource.DecimalSI)
			b.Put(order(a))
			same := a.DeepCopy()
			size := resource.MustParse("1Gi")
			same.Spec.Desktop.Home.Size = &size
			return same
		},
		"a member that lacks a field": func(b *fixture) *v1alpha1.SessionAssignment {
			b.prune = func(a *v1alpha1.SessionAssignment) { a.Spec.Attempt = 0 }
			b.Put(order(assignment("u1", 1, "ada")))
			a := assignment("u1", 1, "ada")
			a.Spec.Attempt = 3
			return a
		},
		"one whose annotation was removed": func(b *fixture) *v1alpha1.SessionAssignment {
			b.Put(order(assignment("u1", 1, "ada")))
			b.run()
			b.edit("u1", func(a *v1alpha1.SessionAssignment) { delete(a.Annotations, annotationGeneration) })
			return assignment("u1", 1, "ada")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			last := prepare(b)
			b.run()
			o := order(last)
			b.Put(o)
			b.expect("STORED e1")
			if got := b.reported("u1"); got != o.GetAssign().GetSpecHash() {
				t.Errorf("reported %q, want %q", got, o.GetAssign().GetSpecHash())
			}
		})
	}
}
