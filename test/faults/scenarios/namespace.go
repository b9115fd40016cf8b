package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// namespaces returns the scenarios that delete the namespace of sessions.
func namespaces() []runner.Scenario {
	return []runner.Scenario{{Name: "namespace-deleted", Alone: true, Do: namespaceDeleted}}
}

// namespaceDeleted deletes the namespace of sessions in a member, once with everything in it, and
// once while the agent is frozen until the namespace controller has deleted the RoleBinding that
// allows it to write there. The deletion must complete, and the sessions must run elsewhere.
func namespaceDeleted(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	both := []probe.Request{{Mode: v1alpha1.FailoverRestart}, {Mode: v1alpha1.FailoverHold}}
	if err := withoutNamespace(ctx, r, m, both, func() error { return nil }); err != nil {
		return err
	}
	// Only Pods without the agent's finalizer disappear while the agent is frozen.
	r.Workload.Stop()
	if err := r.Watch.Hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(workload.Namespace)); err != nil {
		return err
	}
	if err := r.AwaitSnapshot(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, (*watch.Snapshot).Empty); err != nil {
		return err
	}
	return withoutNamespace(ctx, r, m, both[:1], func() error { return freezeUntilForbidden(ctx, r, m) })
}

// withoutNamespace deletes the namespace in a member under probes, injects a fault meanwhile, and
// recreates the namespace.
func withoutNamespace(ctx context.Context, r *runner.Run, m *harness.Member, requests []probe.Request, meanwhile func() error) error {
	all, err := probe.Create(ctx, r, m, requests)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := deleteNamespace(ctx, r, m, meanwhile); err != nil {
		return err
	}
	if err := probe.AwaitElsewhere(ctx, r, all, since, 0); err != nil {
		return err
	}
	r.Record("%s: namespace %s is made and admitted again", m.Name, workload.Namespace)
	if err := m.ControlPlane.AdmitSessions(ctx, workload.Namespace); err != nil {
		return err
	}
	return deleteProbes(ctx, r, all)
}

// freezeUntilForbidden freezes the agents of a member until they may not write to the namespace any
// more.
func freezeUntilForbidden(ctx context.Context, r *runner.Run, m *harness.Member) error {
	r.RecordOutage(m.Name)
	r.Record("%s: SIGSTOP of its agents", m.Name)
	if err := onAgents(m, func(a *harness.Agent) error { return a.Pause() }); err != nil {
		return err
	}
	bindings := m.ControlPlane.Client.RbacV1().RoleBindings(workload.Namespace)
	err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		left, err := bindings.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d RoleBindings are left", len(left.Items))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Record("%s: its RoleBindings are gone; SIGCONT", m.Name)
	return onAgents(m, func(a *harness.Agent) error { return a.Resume() })
}

func onAgents(m *harness.Member, do func(*harness.Agent) error) error {
	var errs []error
	for _, a := range m.Agents {
		errs = append(errs, do(a))
	}
	return errors.Join(errs...)
}

// deleteProbes deletes probes, so that their names are free.
func deleteProbes(ctx context.Context, r *runner.Run, all probe.Probes) error {
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		for _, p := range all {
			s := &v1alpha1.VDISession{ObjectMeta: workload.Meta(p.Name)}
			if err := r.Watch.Hub.Delete(ctx, s); watch.IgnoreNotFound(err) != nil {
				return err
			} else if err == nil {
				return fmt.Errorf("probe %s is still there", p.Name)
			}
		}
		return nil
	})
}

func deleteNamespace(ctx context.Context, r *runner.Run, m *harness.Member, meanwhile func() error) error {
	all := m.ControlPlane.Client.CoreV1().Namespaces()
	r.Record("%s: namespace %s is deleted", m.Name, workload.Namespace)
	since := time.Now()
	if err := all.Delete(ctx, workload.Namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the namespace: %w", err)
	}
	if err := ignoreHomes(ctx, r, m); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+2*stage.Allowance, func(ctx context.Context) error {
		ns, err := all.Get(ctx, workload.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is still there: %v", ns.Status.Conditions))
	})
	if err != nil {
		return fmt.Errorf("%s: namespace %s is deleted: %w", m.Name, workload.Namespace, err)
	}
	r.Record("%s: it is gone after %.1fs", m.Name, time.Since(since).Seconds())
	return nil
}

// ignoreHomes makes the checker expect the end of the homes in a member's namespace. None is
// created in a namespace that is being deleted, and none is deleted before its Pod.
func ignoreHomes(ctx context.Context, r *runner.Run, m *harness.Member) error {
	claims, err := m.ControlPlane.Client.CoreV1().PersistentVolumeClaims(workload.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the homes of the namespace: %w", err)
	}
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for i := range claims.Items {
			c.Ignore(claims.Items[i].UID)
		}
	})
	return nil
}
