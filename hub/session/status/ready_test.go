package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestSummarize(t *testing.T) {
	type summary struct {
		Ready, Reason  string
		Phase, Message string
	}
	started := func(s *v1alpha1.VDISession) {
		at := metav1.NewTime(sessiontest.Now.Add(-time.Hour))
		s.Status.StartTime, s.Status.RunningSince = &at, &at
	}
	failed := sessiontest.Condition(v1alpha1.ConditionProgressing, sessiontest.No, v1alpha1.ReasonImagePull)
	attempt := func(n int64) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Attempt = n }
	}
	timeout := func(d v1alpha1.Duration) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Timeout = d }
	}
	suspended := func(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }
	for _, c := range []struct {
		name    string
		session *v1alpha1.VDISession
		want    summary
	}{
		{"new", sessiontest.With(), summary{"False", "Starting", "Pending", "waiting for Accepted"}},
		{"not accepted", sessiontest.With(sessiontest.Condition(v1alpha1.ConditionAccepted, sessiontest.No, v1alpha1.ReasonTemplateNotFound)),
			summary{"False", "TemplateNotFound", "Failed", "message of TemplateNotFound"}},
		{"no capacity", sessiontest.With(sessiontest.Accepted, sessiontest.Condition(v1alpha1.ConditionScheduled, sessiontest.No, v1alpha1.ReasonUnschedulable)),
			summary{"False", "Unschedulable", "Pending", "message of Unschedulable"}},
		{"placed", sessiontest.With(sessiontest.Scheduled), summary{"False", "Starting", "Creating", "waiting for Assigned"}},
		{"starting", sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonImagePull)),
			summary{"False", "ImagePullFailed", "Creating", "message of ImagePullFailed"}},
		{"what is wrong counts for more than what comes first",
			sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonPodPending), sessiontest.Condition(v1alpha1.ConditionEndpointReady, sessiontest.No, v1alpha1.ReasonApplyFailed)),
			summary{"False", "ApplyFailed", "Creating", "message of ApplyFailed"}},
		{"no node fits a Pod whose claim is not bound",
			sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionHomeReady, sessiontest.No, v1alpha1.ReasonBinding), sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod)),
			summary{"False", "PodUnschedulable", "Creating", "message of Binding message of PodUnschedulable"}},
		{"ready", sessiontest.With(sessiontest.Ready), summary{"True", "Ready", "Running", ""}},
		{"its member is away", sessiontest.With(sessiontest.Ready, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.Unknown, v1alpha1.ReasonMemberUnreachable)),
			summary{"Unknown", "MemberUnreachable", "Running", "message of MemberUnreachable"}},
		{"a missing child takes precedence over an unknown one",
			sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionHomeReady, sessiontest.Unknown, v1alpha1.ReasonMemberUnreachable), sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonCrashLoop)),
			summary{"False", "CrashLoop", "Creating", "message of CrashLoop"}},
		{"suspended", sessiontest.With(sessiontest.Created, suspended, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonSuspended)),
			summary{"False", "Suspended", "Pending", "suspended: set spec.operatingMode to Running to continue"}},
		{"suspended, and its desktop still runs", sessiontest.With(sessiontest.Ready, suspended),
			summary{"False", "Suspended", "Pending", "suspended: set spec.operatingMode to Running to continue"}},
		{"failed permanently", sessiontest.With(sessiontest.Created, failed, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonSuspended)),
			summary{"False", "ImagePullFailed", "Failed", "message of ImagePullFailed"}},
		{"failed permanently, and its time is over too", sessiontest.With(sessiontest.Created, failed, started, timeout("30m")),
			summary{"False", "ImagePullFailed", "Failed", "message of ImagePullFailed"}},
		{"failed permanently, and its retry is refused", sessiontest.With(sessiontest.Created, failed, attempt(1), sessiontest.Condition(v1alpha1.ConditionAccepted, sessiontest.No, v1alpha1.ReasonTemplateNotFound)),
			summary{"False", "TemplateNotFound", "Failed", "it is not retried: message of TemplateNotFound"}},
		{"failed permanently, suspended", sessiontest.With(sessiontest.Created, failed, suspended),
			summary{"False", "ImagePullFailed", "Pending", "message of ImagePullFailed"}},
		{"no capacity to resume", sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionScheduled, sessiontest.No, v1alpha1.ReasonNoCapacityToResume)),
			summary{"False", "NoCapacityToResume", "Pending", "message of NoCapacityToResume"}},
		{"its time is over soon", sessiontest.With(sessiontest.Ready, started, timeout("61m")), summary{"True", "ExpiringSoon", "Running", ""}},
		{"it is idle", sessiontest.With(sessiontest.Created, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.Yes, v1alpha1.ReasonIdleSoon)),
			summary{"True", "ExpiringSoon", "Running", ""}},
		{"its time is over soon, and its member is away", sessiontest.With(sessiontest.Ready, started, timeout("61m"), sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.Unknown, v1alpha1.ReasonMemberUnreachable)),
			summary{"Unknown", "MemberUnreachable", "Running", "message of MemberUnreachable"}},
		{"its time is over by the hub's clock alone", sessiontest.With(sessiontest.Ready, started, timeout("30m")), summary{"True", "Ready", "Running", ""}},
		{"its time is over", sessiontest.With(sessiontest.Created, timeout("30m"), func(s *v1alpha1.VDISession) { s.Status.TimeUsed = "30m" }),
			summary{"False", "TimeExpired", "Failed", "its time of 30m is over: raise spec.timeout to continue, or delete it"}},
		{"its time is not over", sessiontest.With(sessiontest.Ready, started, timeout("2h")), summary{"True", "Ready", "Running", ""}},
		{"a change of it was refused", sessiontest.With(sessiontest.Ready, sessiontest.Condition(v1alpha1.ConditionAccepted, sessiontest.No, v1alpha1.ReasonTimeoutExceedsMaximum)),
			summary{"True", "Ready", "Running", "message of TimeoutExceedsMaximum"}},
		{"deleted", sessiontest.With(sessiontest.Ready, sessiontest.Deleted),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-here has confirmed that nothing of it runs"}},
		{"deleted, and its member reports what it waits for", sessiontest.With(sessiontest.Ready, sessiontest.Deleted, sessiontest.Condition(v1alpha1.ConditionAssigned, sessiontest.No, v1alpha1.ReasonPodTerminating)),
			summary{"False", "Terminating", "Terminating", "being deleted: message of PodTerminating"}},
		{"deleted in two members", sessiontest.With(sessiontest.Ready, sessiontest.Deleted, sessiontest.ReleasingAt(sessiontest.Elsewhere, 3)),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-elsewhere and name-of-uid-here have confirmed that nothing of it runs"}},
		{"deleted, and its time is over too", sessiontest.With(sessiontest.Ready, sessiontest.Deleted, started, timeout("30m")),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-here has confirmed that nothing of it runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			Summarize(c.session, &v1alpha1.TemplateSpec{}, sessiontest.Now)
			r := meta.FindStatusCondition(c.session.Status.Conditions, v1alpha1.ConditionReady)
			got := summary{string(r.Status), r.Reason, string(c.session.Status.Phase), c.session.Status.Message}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			again := c.session.DeepCopy()
			Summarize(again, &v1alpha1.TemplateSpec{}, sessiontest.Now)
			if !equality.Semantic.DeepEqual(c.session.Status, again.Status) {
				t.Error("summing up again changes the status")
			}
		})
	}
}
