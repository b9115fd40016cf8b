package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

type change = func(*v1alpha1.VDISession)

// session returns a session of its own user in team-a, unless changed.
func session(name, template string, changes ...change) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: name},
		Spec:       v1alpha1.SessionSpec{User: name + "@example.com", Template: template},
	}
	for _, f := range changes {
		f(s)
	}
	return s
}

// many returns sessions, numbered in their names.
func many(count int, name, template string, changes ...change) []*v1alpha1.VDISession {
	var out []*v1alpha1.VDISession
	for i := range count {
		out = append(out, session(fmt.Sprintf("%s-%d", name, i), template, changes...))
	}
	return out
}

func in(namespace string) change {
	return func(s *v1alpha1.VDISession) { s.Namespace = namespace }
}

func of(user string) change {
	return func(s *v1alpha1.VDISession) { s.Spec.User = user }
}

func inRegion(region string) change {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.RequiredRegions = []string{region} }
}

func near(region string) change {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.PreferredRegions = []string{region} }
}

func priority(p int32) change {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.Priority = p }
}

func labeled(key, value string) change {
	return func(s *v1alpha1.VDISession) { metav1.SetMetaDataLabel(&s.ObjectMeta, key, value) }
}

func create(ctx context.Context, s *v1alpha1.VDISession) *v1alpha1.VDISession {
	GinkgoHelper()
	Expect(hub.Create(ctx, s)).To(Succeed())
	return s
}

// createAll creates all sessions at once.
func createAll(ctx context.Context, sessions []*v1alpha1.VDISession) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for _, s := range sessions {
		group.Go(func() error { return hub.Create(ctx, s) })
	}
	Expect(group.Wait()).To(Succeed())
}

func end(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	Expect(hub.Delete(ctx, s)).To(Succeed())
}

// endAll deletes all sessions and waits until they are gone.
func endAll(ctx context.Context) {
	GinkgoHelper()
	for _, namespace := range namespaces {
		// An API server ends a request after a minute, and does not delete a thousand in
		// that time on a busy machine.
		Eventually(ctx, func(ctx context.Context) error {
			return hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(namespace))
		}).WithTimeout(specTimeout / 2).Should(Succeed())
	}
	Eventually(ctx, seen.count(func(*v1alpha1.VDISession) bool { return true })).WithTimeout(specTimeout / 2).Should(BeZero())
}

// placed reports whether a session has a placement and is not being deleted.
func placed(s *v1alpha1.VDISession) bool {
	return s.Status.Placement != nil && s.DeletionTimestamp.IsZero()
}

func running(s *v1alpha1.VDISession) bool {
	return placed(s) && s.Status.Phase == v1alpha1.PhaseRunning
}

// waits reports whether a session shows that it is unschedulable.
func waits(s *v1alpha1.VDISession) bool {
	c := scheduled(s)
	return s.Status.Placement == nil && c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonUnschedulable
}

func scheduled(s *v1alpha1.VDISession) *metav1.Condition {
	return meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
}

func current(ctx context.Context, s *v1alpha1.VDISession) (*v1alpha1.VDISession, error) {
	out := &v1alpha1.VDISession{}
	return out, hub.Get(ctx, client.ObjectKeyFromObject(s), out)
}

// member returns where a session runs, empty if it does not, for Eventually.
func member(s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		now, err := current(ctx, s)
		if err != nil || !running(now) {
			return "", err
		}
		return now.Status.Placement.ClusterName, nil
	}
}

// why returns why a session has no member, as "reason: message", for Eventually.
func why(s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		now, err := current(ctx, s)
		if err != nil {
			return "", err
		}
		if c := scheduled(now); c != nil && c.Status == metav1.ConditionFalse {
			return c.Reason + ": " + c.Message, nil
		}
		return "", nil
	}
}

// events returns the reasons of a session's events, for Eventually.
func events(s *v1alpha1.VDISession) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &eventsv1.EventList{}
		if err := hub.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}
		var out []string
		for i := range list.Items {
			if list.Items[i].Regarding.UID == s.UID {
				out = append(out, list.Items[i].Reason)
			}
		}
		return out, nil
	}
}
