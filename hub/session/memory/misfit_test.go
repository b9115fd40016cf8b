package memory

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestEachMoveTakesLonger(t *testing.T) {
	var m Memory
	s := sessiontest.With()
	s.Status.Placement = &v1alpha1.Placement{ClusterUID: sessiontest.Here}
	now := sessiontest.Now
	var waits []time.Duration
	for epoch := range int64(8) {
		s.Status.Placement.Epoch = epoch + 1
		waits = append(waits, m.MisfitWait(s, now, time.Second))
		m.Moved(s.UID, s.Status.Placement, NoNodeFits, now)
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 32, 32}; !equalSeconds(waits, want) {
		t.Errorf("it waits %v", waits)
	}
	s.Status.RunningSince = &metav1.Time{Time: now}
	m.Settled(s)
	s.Status.RunningSince = nil
	if wait := m.MisfitWait(s, now, time.Second); wait != time.Second {
		t.Errorf("it waits %s after it has run", wait)
	}
	m.Forget(s.UID)
	if len(m.records) != 0 {
		t.Error("a session that is gone is remembered")
	}
}

func TestTheReasonAgainstAMemberNamesTheCauseOfTheMove(t *testing.T) {
	for cause, want := range map[Cause]string{
		NoNodeFits:          "PodUnschedulable: no node of it fits the Pod",
		ScaleUpFailed:       "ScaleUpFailed: no node group of it added a node for the Pod: see status.nodeGroups of the MemberCluster",
		ProvisioningTimeout: "ProvisioningTimeout: it added no node for the Pod within maxProvisioningTime of the policy",
	} {
		var m Memory
		s := sessiontest.With()
		m.Moved(s.UID, &v1alpha1.Placement{ClusterUID: sessiontest.Here, Epoch: 1}, cause, sessiontest.Now)
		if got := m.Known(s, sessiontest.Now, func(types.UID) time.Time { return time.Time{} }).Excluded[sessiontest.Here]; got != want {
			t.Errorf("%s: the reason is %q, want %q", cause, got, want)
		}
	}
}

func equalSeconds(got, want []time.Duration) bool {
	for i := range want {
		if got[i] != want[i]*time.Second {
			return false
		}
	}
	return len(got) == len(want)
}
