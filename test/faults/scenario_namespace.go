package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// namespaces deletes what sessions live in.
func namespaces() []scenario {
	return []scenario{{name: "namespace-deleted", alone: true, do: namespaceDeleted}}
}

// namespaceDeleted deletes the namespace of sessions in a member, once with all that
// people have there, and once while the agent stands still until the namespace controller
// has deleted the RoleBinding that lets it write there. It ends, and what ran there runs
// elsewhere.
func namespaceDeleted(ctx context.Context, r *run) error {
	m := r.member()
	both := []wish{{mode: v1alpha1.FailoverRestart}, {mode: v1alpha1.FailoverHold}}
	if err := r.withoutNamespace(ctx, m, both, func() error { return nil }); err != nil {
		return err
	}
	// Only Pods without our finalizer go while the agent stands still.
	r.work.end()
	if err := r.watch.hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	if err := r.until(ctx, r.scaled(agreeWithin)+allowance, (*sides).empty); err != nil {
		return err
	}
	return r.withoutNamespace(ctx, m, both[:1], func() error { return r.freezeUntilForbidden(ctx, m) })
}

// withoutNamespace deletes the namespace in a member under guests, meanwhile does harm,
// and brings the namespace back.
func (r *run) withoutNamespace(ctx context.Context, m *harness.Member, wishes []wish, meanwhile func() error) error {
	all, err := r.invite(ctx, m, wishes)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.deleteNamespace(ctx, m, meanwhile); err != nil {
		return err
	}
	if err := r.elsewhere(ctx, all, since, 0); err != nil {
		return err
	}
	r.harm("%s: namespace %s is made and admitted again", m.Name, namespace)
	if err := m.ControlPlane.AdmitSessions(ctx, namespace); err != nil {
		return err
	}
	return r.seeOff(ctx, all)
}

// freezeUntilForbidden has the agents of a member stand still until they may not write to
// the namespace any more.
func (r *run) freezeUntilForbidden(ctx context.Context, m *harness.Member) error {
	r.away(m.Name)
	r.harm("%s: SIGSTOP of its agents", m.Name)
	if err := onAgents(m, func(a *harness.Agent) error { return a.Pause() }); err != nil {
		return err
	}
	bindings := m.ControlPlane.Client.RbacV1().RoleBindings(namespace)
	err := poll(ctx, r.scaled(agreeWithin)+allowance, func(ctx context.Context) error {
		left, err := bindings.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d RoleBindings are left", len(left.Items))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.harm("%s: its RoleBindings are gone; SIGCONT", m.Name)
	return onAgents(m, func(a *harness.Agent) error { return a.Resume() })
}

func onAgents(m *harness.Member, do func(*harness.Agent) error) error {
	var errs []error
	for _, a := range m.Agents {
		errs = append(errs, do(a))
	}
	return errors.Join(errs...)
}

// seeOff deletes guests, so that others may have their names.
func (r *run) seeOff(ctx context.Context, all guests) error {
	return poll(ctx, r.scaled(agreeWithin)+allowance, func(ctx context.Context) error {
		for _, g := range all {
			s := &v1alpha1.VDISession{ObjectMeta: newMeta(g.name)}
			if err := r.watch.hub.Delete(ctx, s); ignoreNotFound(err) != nil {
				return err
			} else if err == nil {
				return fmt.Errorf("guest %s is still there", g.name)
			}
		}
		return nil
	})
}

func (r *run) deleteNamespace(ctx context.Context, m *harness.Member, meanwhile func() error) error {
	all := m.ControlPlane.Client.CoreV1().Namespaces()
	r.harm("%s: namespace %s is deleted", m.Name, namespace)
	since := time.Now()
	if err := all.Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the namespace: %w", err)
	}
	if err := r.excuseHomes(ctx, m); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	err := poll(ctx, r.scaled(agreeWithin)+2*allowance, func(ctx context.Context) error {
		ns, err := all.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is still there: %v", ns.Status.Conditions))
	})
	if err != nil {
		return fmt.Errorf("%s: namespace %s is deleted: %w", m.Name, namespace, err)
	}
	r.harm("%s: it is gone after %.1fs", m.Name, time.Since(since).Seconds())
	return nil
}

// excuseHomes tells the checker that the homes in a member go with their namespace. None is
// created in a namespace that is being deleted, and none is gone before its Pod is.
func (r *run) excuseHomes(ctx context.Context, m *harness.Member) error {
	claims, err := m.ControlPlane.Client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the homes of the namespace: %w", err)
	}
	r.watch.heard(func(c *checker, _ time.Time) {
		for i := range claims.Items {
			c.excused[claims.Items[i].UID] = true
		}
	})
	return nil
}
