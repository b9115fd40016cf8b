package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// hiccups returns the scenarios in which the hub's API server refuses writes for so short a time
// that the leader stays the leader.
func hiccups() []runner.Scenario {
	return []runner.Scenario{{Name: "hub-writes-fail", Do: hubWritesFail}}
}

const (
	// webhookSessions is the number of sessions to write when writes begin to fail.
	webhookSessions = 700
	// webhookOutage is how long writes fail, whatever the factor.
	webhookOutage = 5 * time.Second
	// servedWithin is how soon after that all sessions must be written, whatever the factor.
	servedWithin = 30 * time.Second
)

// hubWritesFail adds an admission webhook that does not respond while many sessions are being
// deleted, so that the hub can't remove their finalizers. The hub must retry soon after that:
// nothing else changes them.
func hubWritesFail(ctx context.Context, r *runner.Run) error {
	name := r.Scenario.Name
	if err := createPending(ctx, r, name); err != nil {
		return err
	}
	hook := deadWebhook(name)
	remove := func() error {
		return client.IgnoreNotFound(r.Watch.Hub.Delete(context.WithoutCancel(ctx), hook.DeepCopy()))
	}
	r.Cleanup(func() { _ = remove() })
	if err := r.Watch.Hub.Create(ctx, hook.DeepCopy()); err != nil {
		return fmt.Errorf("making the webhook: %w", err)
	}
	if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error {
		if err := tryWrite(ctx, r, name); err == nil || !strings.Contains(err.Error(), name) {
			return errors.Join(errors.New("sessions can be written, although the webhook is dead"), err)
		}
		return nil
	}); err != nil {
		return err
	}
	crowd := client.MatchingLabels{"crowd": name}
	if err := r.Watch.Hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(workload.Namespace), crowd); err != nil {
		return err
	}
	r.Record("no session can be written, and %d are deleted", webhookSessions)
	if err := stage.Sleep(ctx, webhookOutage); err != nil {
		return err
	}
	if err := checkLeft(ctx, r, crowd, webhookSessions); err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	since := time.Now()
	if err := stage.Poll(ctx, servedWithin, func(ctx context.Context) error { return checkLeft(ctx, r, crowd, 0) }); err != nil {
		return fmt.Errorf("G8: sessions can be written again: %w", err)
	}
	r.Record("all of them were gone %.1fs after the webhook", time.Since(since).Seconds())
	return nil
}

// checkLeft checks that so many of these sessions are left.
func checkLeft(ctx context.Context, r *runner.Run, crowd client.MatchingLabels, want int) error {
	list := &v1alpha1.VDISessionList{}
	if err := r.Watch.Hub.List(ctx, list, client.InNamespace(workload.Namespace), crowd); err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("%d sessions of the crowd are there, want %d", len(list.Items), want)
	}
	return nil
}

// createPending creates many sessions of a template that does not exist, and waits until their
// status shows that.
func createPending(ctx context.Context, r *runner.Run, crowd string) error {
	for i := range webhookSessions {
		s := workload.NewSession(fmt.Sprintf("%s-crowd-%03d", crowd, i), 3)
		s.Labels, s.Spec.Template = map[string]string{"crowd": crowd}, crowd
		if err := r.Watch.Hub.Create(ctx, s); err != nil {
			return fmt.Errorf("creating %s: %w", s.Name, err)
		}
	}
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+2*stage.Allowance, func(ctx context.Context) error {
		return checkReason(ctx, r, crowd, v1alpha1.ConditionAccepted, v1alpha1.ReasonTemplateNotFound)
	})
}

// checkReason checks that all of these sessions have a condition with a reason.
func checkReason(ctx context.Context, r *runner.Run, crowd, condition, reason string) error {
	list := &v1alpha1.VDISessionList{}
	if err := r.Watch.Hub.List(ctx, list, client.InNamespace(workload.Namespace), client.MatchingLabels{"crowd": crowd}); err != nil {
		return err
	}
	others := 0
	for i := range list.Items {
		if c := meta.FindStatusCondition(list.Items[i].Status.Conditions, condition); c == nil || c.Reason != reason {
			others++
		}
	}
	if others > 0 || len(list.Items) != webhookSessions {
		return fmt.Errorf("%d of %d sessions do not show %s", others, len(list.Items), reason)
	}
	return nil
}

// tryWrite writes one of these sessions in a dry run.
func tryWrite(ctx context.Context, r *runner.Run, crowd string) error {
	s := &v1alpha1.VDISession{}
	if err := r.Watch.Hub.Get(ctx, watch.Key(fmt.Sprintf("%s/%s-crowd-000", workload.Namespace, crowd)), s); err != nil {
		return err
	}
	return r.Watch.Hub.Update(ctx, s, client.DryRunAll)
}

// deadWebhook returns a webhook for every change of a session, at an address where nothing listens.
func deadWebhook(name string) *admissionv1.ValidatingWebhookConfiguration {
	url, none, fail, seconds := "https://127.0.0.1:1/", admissionv1.SideEffectClassNone, admissionv1.Fail, int32(1)
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name + ".example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"vdisessions"},
				},
			}},
		}},
	}
}
