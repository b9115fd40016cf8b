package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// namespaces deletes what sessions live in.
func namespaces() []scenario {
	return []scenario{{name: "namespace-deleted", alone: true, do: namespaceDeleted}}
}

// namespaceDeleted deletes the namespace of sessions in a member, several times: the
// namespace controller deletes its kinds in random order, the agent's RoleBinding
// among them. It ends, and what ran there runs elsewhere.
func namespaceDeleted(ctx context.Context, r *run) error {
	m := r.member()
	for round := range rounds {
		all, err := r.invite(ctx, m, []wish{{mode: v1alpha1.FailoverRestart}, {mode: v1alpha1.FailoverHold}})
		if err != nil {
			return err
		}
		since := time.Now()
		if err := r.deleteNamespace(ctx, m); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if err := r.elsewhere(ctx, all, since, 0); err != nil {
			return err
		}
		if err := r.admitAgain(ctx, m); err != nil {
			return err
		}
		if err := r.seeOff(ctx, all); err != nil {
			return err
		}
	}
	return nil
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

func (r *run) deleteNamespace(ctx context.Context, m *harness.Member) error {
	all := m.ControlPlane.Client.CoreV1().Namespaces()
	r.harm("%s: namespace %s is deleted", m.Name, namespace)
	since := time.Now()
	if err := all.Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the namespace: %w", err)
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

// admitAgain makes the namespace and admits it, as an administrator of the member does.
func (r *run) admitAgain(ctx context.Context, m *harness.Member) error {
	if err := m.ControlPlane.AdmitSessions(ctx, namespace); err != nil {
		return err
	}
	r.harm("%s: namespace %s is back and admitted", m.Name, namespace)
	return nil
}
