package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func browserTemplate() *v1alpha1.VDITemplate {
	t := &v1alpha1.VDITemplate{}
	t.Name, t.Generation, t.Spec.Image, t.Spec.Port = "browser", 1, "browser:1", 80
	return t
}

func (x *controllers) template() *v1alpha1.VDITemplate {
	t := &v1alpha1.VDITemplate{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: "browser"}, t)).To(Succeed())
	return t
}

func TestTemplateShowsItsSessionsByRevision(t *testing.T) {
	x := newControllers(t, browserTemplate())
	x.placed = map[string]map[string]int32{"browser": {"old": 2, "new": 3, "older": 2, "gone": 0}}
	x.reconcileTemplates()
	status := x.template().Status
	x.Expect(status.Sessions).To(Equal(int32(7)))
	want := []v1alpha1.RevisionSessions{{Revision: "new", Sessions: 3}, {Revision: "old", Sessions: 2}, {Revision: "older", Sessions: 2}}
	if diff := cmp.Diff(want, status.Revisions); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestTemplateStatusNamesTheMostUsedRevisions(t *testing.T) {
	used := map[string]int32{}
	for i := range int32(100) {
		used[fmt.Sprintf("r%02d", i)] = i + 1
	}
	got := byUse(used)
	if len(got) != mostRevisions || got[0].Revision != "r99" || got[mostRevisions-1].Revision != "r36" {
		t.Errorf("got %d, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
}

func TestTemplateStatusIsWrittenOnceAnInterval(t *testing.T) {
	x := newControllers(t, browserTemplate())
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(2), "finalizer and status")
	x.Expect(x.reconcileTemplates().RequeueAfter).To(BeZero())
	x.Expect(x.writes).To(Equal(2), "nothing has changed")

	x.clock.Step(statusInterval / 4)
	x.placed = map[string]map[string]int32{"browser": {"r": 1}}
	x.Expect(x.reconcileTemplates().RequeueAfter).To(Equal(statusInterval * 3 / 4))
	x.Expect(x.writes).To(Equal(2), "counts wait their turn")
	x.clock.Step(statusInterval)
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(3))

	edited := x.template()
	edited.Spec.Image, edited.Generation = "browser:2", 2
	x.Expect(x.c.Update(context.Background(), edited)).To(Succeed())
	before := x.writes
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(before+1), "an edit is shown at once")
}

func TestTemplateInUseIsKept(t *testing.T) {
	ctx := context.Background()
	x := newControllers(t, browserTemplate())
	x.placed = map[string]map[string]int32{"browser": {"r1": 2, "r2": 1}}
	x.reconcileTemplates()
	x.Expect(x.c.Delete(ctx, browserTemplate())).To(Succeed())
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	c := meta.FindStatusCondition(x.template().Status.Conditions, v1alpha1.ConditionAvailable)
	x.Expect(c.Reason).To(Equal(v1alpha1.ReasonTerminating))
	x.Expect(c.Message).To(Equal("being deleted: 3 sessions are made of it; it goes once they are deleted"))

	x.placed = map[string]map[string]int32{"browser": {"r2": 1}}
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	x.Expect(meta.FindStatusCondition(x.template().Status.Conditions, v1alpha1.ConditionAvailable).Message).
		To(Equal("being deleted: 1 session is made of it; it goes once that is deleted"))

	x.placed = nil
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	err := x.c.Get(ctx, client.ObjectKey{Name: "browser"}, &v1alpha1.VDITemplate{})
	x.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	x.reconcileTemplates()
	x.Expect(x.templates.written).To(BeEmpty())
}
