package template

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

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// fixture is a hub with templates in memory, which counts what is written.
type fixture struct {
	*WithT
	c          client.Client
	clock      *clocktesting.FakeClock
	reconciler *Reconciler
	writes     int
	members    members
	// used answers InUse, and placed answers Placed.
	used   bool
	placed map[string]map[string]int32
}

// members are a fleet's members, of which can are able to run any template.
type members struct{ can int32 }

func (*members) SetTemplates(context.Context, *fleetv1.TemplateSet, map[string]string) error {
	return nil
}
func (m *members) CanRun(string, string) (can, of int32) { return m.can, 3 }
func (*members) Listen(func(member.Change))              {}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	x := &fixture{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	scheme := runtime.NewScheme()
	x.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	x.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	x.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.VDITemplate{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				x.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				x.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	x.reconciler = &Reconciler{
		Client: x.c, Members: &x.members, Clock: x.clock, Namespace: "vdi-system",
		InUse:   func(string, string) bool { return x.used },
		Prepare: func(context.Context) error { return nil },
		Placed:  func(template string) map[string]int32 { return x.placed[template] },
	}
	return x
}

func (x *fixture) reconcileTemplates() ctrl.Result {
	result, err := x.reconciler.Reconcile(context.Background(), allTemplates)
	x.Expect(err).NotTo(HaveOccurred())
	return result
}

func browserTemplate() *v1alpha1.VDITemplate {
	t := &v1alpha1.VDITemplate{}
	t.Name, t.Generation, t.Spec.Image, t.Spec.Port = "browser", 1, "browser:1", 80
	return t
}

func (x *fixture) template() *v1alpha1.VDITemplate {
	t := &v1alpha1.VDITemplate{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: "browser"}, t)).To(Succeed())
	return t
}

func TestTemplateShowsItsSessionsByRevision(t *testing.T) {
	x := newFixture(t, browserTemplate())
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
	if len(got) != maxRevisions || got[0].Revision != "r99" || got[maxRevisions-1].Revision != "r36" {
		t.Errorf("got %d, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
}

func TestTemplateStatusIsWrittenOnceAnInterval(t *testing.T) {
	x := newFixture(t, browserTemplate())
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(2), "finalizer and status")
	x.Expect(x.reconcileTemplates().RequeueAfter).To(BeZero())
	x.Expect(x.writes).To(Equal(2), "nothing has changed")

	x.clock.Step(backoff.StatusInterval / 4)
	x.placed = map[string]map[string]int32{"browser": {"r": 1}}
	x.Expect(x.reconcileTemplates().RequeueAfter).To(Equal(backoff.StatusInterval * 3 / 4))
	x.Expect(x.writes).To(Equal(2), "counts wait their turn")
	x.clock.Step(backoff.StatusInterval)
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(3))

	edited := x.template()
	edited.Spec.Image, edited.Generation = "browser:2", 2
	x.Expect(x.c.Update(context.Background(), edited)).To(Succeed())
	before := x.writes
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(before+1), "an edit is shown at once")
}

func TestATemplateThatCanRunIsShownAtOnce(t *testing.T) {
	x := newFixture(t, browserTemplate())
	x.reconcileTemplates()
	before := x.writes
	x.members.can = 1
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(before+1), "the first member can run it")
	x.members.can = 2
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(before+1), "a count waits its turn")
	x.members.can = 0
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(before+2), "no member can run it any more")
}

func TestTemplateInUseIsKept(t *testing.T) {
	ctx := context.Background()
	x := newFixture(t, browserTemplate())
	x.placed = map[string]map[string]int32{"browser": {"r1": 2, "r2": 1}}
	x.reconcileTemplates()
	x.Expect(x.c.Delete(ctx, browserTemplate())).To(Succeed())
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	c := meta.FindStatusCondition(x.template().Status.Conditions, v1alpha1.ConditionAvailable)
	x.Expect(c.Reason).To(Equal(v1alpha1.ReasonTerminating))
	x.Expect(c.Message).To(Equal("being deleted: 3 sessions use it; it is removed once they are deleted"))

	x.placed = map[string]map[string]int32{"browser": {"r2": 1}}
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	x.Expect(meta.FindStatusCondition(x.template().Status.Conditions, v1alpha1.ConditionAvailable).Message).
		To(Equal("being deleted: 1 session uses it; it is removed once that is deleted"))

	x.placed = nil
	x.clock.Step(time.Minute)
	x.reconcileTemplates()
	err := x.c.Get(ctx, client.ObjectKey{Name: "browser"}, &v1alpha1.VDITemplate{})
	x.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func TestRevisionIsPrunedOnceNothingHasReferredToItForAWhile(t *testing.T) {
	template := &v1alpha1.VDITemplate{}
	template.Name, template.Spec.Image, template.Spec.Port = "browser", "browser:2", 80
	cr := &appsv1.ControllerRevision{}
	cr.Namespace, cr.Name, cr.UID = "vdi-system", "browser-old", "uid-cr"
	cr.Labels = map[string]string{LabelTemplate: "browser", LabelRevision: "old"}
	cr.Data.Raw = []byte(`{"image":"browser:1","port":80}`)
	x := newFixture(t, template, cr)
	there := func() bool {
		err := x.c.Get(context.Background(), client.ObjectKeyFromObject(cr), cr)
		return !apierrors.IsNotFound(err)
	}
	x.used = true
	x.Expect(x.reconcileTemplates().RequeueAfter).To(BeZero())
	x.used = false
	x.Expect(x.reconcileTemplates().RequeueAfter).To(Equal(pruneAfter))
	x.clock.Step(pruneAfter - time.Second)
	x.used = true
	x.reconcileTemplates()
	x.used = false
	x.clock.Step(time.Second)
	x.reconcileTemplates()
	x.Expect(there()).To(BeTrue(), "it was used meanwhile")
	x.clock.Step(pruneAfter)
	x.reconcileTemplates()
	x.Expect(there()).To(BeFalse())
	x.Expect(x.reconciler.unused).To(BeEmpty())
	writes := x.writes
	x.reconcileTemplates()
	x.Expect(x.writes).To(Equal(writes))
}
