package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// newSession returns a session of the browser template unless changed.
func newSession(name string, change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.SessionSpec{User: "user@example.com", Template: "browser"},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func in(ns string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Namespace = ns }
}

func of(template string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Template = template }
}

func inRegion(region string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.RequiredRegions = []string{region} }
}

// create creates a session and deletes it after the spec.
func create(ctx context.Context, s *v1alpha1.VDISession) *v1alpha1.VDISession {
	GinkgoHelper()
	Expect(hub.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, s))).To(Succeed())
		awaitGone(ctx, s)
	})
	return s
}

func get(ctx context.Context, s *v1alpha1.VDISession) (*v1alpha1.VDISession, error) {
	out := &v1alpha1.VDISession{}
	return out, hub.Get(ctx, client.ObjectKeyFromObject(s), out)
}

// phase returns a session's phase, for Eventually.
func phase(s *v1alpha1.VDISession) func(context.Context) (v1alpha1.SessionPhase, error) {
	return func(ctx context.Context) (v1alpha1.SessionPhase, error) {
		out, err := get(ctx, s)
		return out.Status.Phase, err
	}
}

// notIn returns the sessions that are not in a phase, with their messages, for Eventually.
func notIn(want v1alpha1.SessionPhase, sessions []*v1alpha1.VDISession) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var out []string
		for _, s := range sessions {
			now, err := get(ctx, s)
			if err != nil {
				return nil, err
			}
			if now.Status.Phase != want {
				out = append(out, fmt.Sprintf("%s: %s: %s", now.Name, now.Status.Phase, now.Status.Message))
			}
		}
		return out, nil
	}
}

// reason returns the reason of a condition, for Eventually.
func reason(s *v1alpha1.VDISession, condition string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		out, err := get(ctx, s)
		if err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(out.Status.Conditions, condition); c != nil {
			return c.Reason, nil
		}
		return "", nil
	}
}

func message(s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		out, err := get(ctx, s)
		return out.Status.Message, err
	}
}

func awaitRunning(ctx context.Context, s *v1alpha1.VDISession) *v1alpha1.VDISession {
	GinkgoHelper()
	Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseRunning))
	out, err := get(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	return out
}

func awaitGone(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) bool {
		_, err := get(ctx, s)
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "session %s is still there", s.Name)
}

func deleteNow(ctx context.Context, name string) error {
	return client.IgnoreNotFound(hub.Delete(ctx, newSession(name)))
}

// podsOf returns the Pods of a session in the whole fleet, as cluster/name.
func podsOf(ctx context.Context, uid types.UID) ([]string, error) {
	var out []string
	for _, m := range fleet.Members {
		pods, err := m.ControlPlane.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelSessionUID + "=" + string(uid)})
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			out = append(out, m.Name+"/"+pods.Items[i].Name)
		}
	}
	return out, nil
}

// agreement returns an error unless the members hold exactly what the hub's sessions require: an
// assignment for each placed one, in its member and no other, and at most one Pod for each.
func agreement(ctx context.Context) error {
	sessions := &v1alpha1.VDISessionList{}
	if err := hub.List(ctx, sessions); err != nil {
		return err
	}
	wanted := map[types.UID]string{}
	for i := range sessions.Items {
		if p := sessions.Items[i].Status.Placement; p != nil {
			wanted[sessions.Items[i].UID] = p.ClusterName
		}
	}
	for _, m := range fleet.Members {
		held := &v1alpha1.SessionAssignmentList{}
		if err := clientOf(m.ControlPlane).List(ctx, held); err != nil {
			return err
		}
		for i := range held.Items {
			if uid := held.Items[i].Spec.Session.UID; wanted[uid] != m.Name {
				return fmt.Errorf("%s holds assignment %s, which the hub has placed in %q", m.Name, held.Items[i].Name, wanted[uid])
			}
		}
		pods, err := m.ControlPlane.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for i := range pods.Items {
			uid := pods.Items[i].Labels[v1alpha1.LabelSessionUID]
			if wanted[types.UID(uid)] != m.Name || seen[uid] {
				return fmt.Errorf("%s has Pod %s too many", m.Name, pods.Items[i].Name)
			}
			seen[uid] = true
		}
	}
	return nil
}

// childrenOf returns the objects of an assignment that a member still has.
func childrenOf(ctx context.Context, member, ns, name string) ([]string, error) {
	c := clientOf(memberNamed(member).ControlPlane)
	var out []string
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &v1alpha1.SessionAssignmentList{},
	} {
		if err := c.List(ctx, list, client.InNamespace(ns)); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if found := o.(client.Object).GetName(); found == name {
				out = append(out, fmt.Sprintf("%T %s", o, found))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dump reports the state that a failed spec left.
func dump(ctx context.Context) {
	for _, args := range [][]string{{"get", "vdisessions,memberclusters", "-A", "-o", "wide"}} {
		out, err := fleet.Hub.ControlPlane.Kubectl(ctx, args...)
		AddReportEntry("kubectl "+strings.Join(args, " "), fmt.Sprintf("%s %v", out, err))
	}
	for _, p := range fleet.Processes() {
		if name := p.LogFile(); strings.Contains(name, "hub-") || strings.Contains(name, "agent") {
			AddReportEntry(name, p.LogTail())
		}
	}
}
