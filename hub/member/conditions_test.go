package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

func TestConditionsOfAMember(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	certificate := func(expires time.Duration) *v1alpha1.MemberCertificate {
		at := metav1.NewTime(now.Add(expires))
		return &v1alpha1.MemberCertificate{Serial: "a1", NotAfter: &at}
	}
	was := func(reasons ...string) []metav1.Condition {
		var out []metav1.Condition
		for _, r := range reasons {
			kind, rest, _ := strings.Cut(r, "=")
			status, reason, _ := strings.Cut(rest, "/")
			out = append(out, condition(kind)(metav1.ConditionStatus(status), reason, "as it was"))
		}
		return out
	}
	up := was("Ready=True/Connected", "Enrolled=True/Enrolled", "Connected=True/Connected", "Synced=True/Synced")
	is := func(h health.State, c health.Cause, change ...func(*view)) view {
		v := view{Verdict: health.Verdict{State: h, Cause: c}, facts: facts{name: "eu"}, ever: true, now: now}
		for _, f := range change {
			f(&v)
		}
		return v
	}
	open := func(v *view) { v.connected, v.synced = true, true }
	opening := func(v *view) { v.connected = true }
	settling := func(v *view) { v.settling = time.Second }
	never := func(v *view) { v.ever = false }
	revoked := func(v *view) { v.revoked = true }
	otherCluster := func(v *view) { v.otherCluster, v.fingerprint = "other", "fp" }
	incompatible := func(v *view) { v.incompatible = "upgrade the agent" }
	lost := func(err error) func(*view) {
		return func(v *view) { v.lostAt = now; v.lostReason, v.lostWhy = lossOf(err) }
	}
	reset := lost(errors.New("connection reset"))
	for name, c := range map[string]struct {
		v           view
		was         []metav1.Condition
		certificate *v1alpha1.MemberCertificate
		want        string
	}{
		"new":                               {v: is(health.NeverConnected, "", never), want: "False/NeverConnected False/AwaitingAgent False/NeverConnected Unknown/NotConnected"},
		"joined, not connected":             {v: is(health.NeverConnected, "", never), certificate: certificate(1), want: "False/NeverConnected True/Enrolled False/NeverConnected Unknown/NotConnected"},
		"up":                                {v: is(health.Ready, "", open), certificate: certificate(1), want: "True/Connected True/Enrolled True/Connected True/Synced"},
		"up, with another's certificate":    {v: is(health.Ready, "", open), want: "True/Connected True/ExternallyIssued True/Connected True/Synced"},
		"its inventory is not in":           {v: is(health.Ready, "", opening), was: was("Synced=Unknown/NotConnected"), want: "True/Connected True/ExternallyIssued True/Connected False/Resyncing"},
		"its inventory takes long":          {v: is(health.Ready, "", opening), was: up, want: "True/Connected True/ExternallyIssued True/Connected False/Resyncing"},
		"broke a moment ago":                {v: is(health.Ready, "", settling, reset), was: up, want: "True/Connected True/ExternallyIssued True/Connected True/Synced"},
		"back a moment ago":                 {v: is(health.Ready, "", settling, opening), was: up, want: "True/Connected True/ExternallyIssued True/Connected True/Synced"},
		"broke for good":                    {v: is(health.Ready, "", reset), was: up, want: "True/Connected True/ExternallyIssued False/Disconnected Unknown/NotConnected"},
		"silent":                            {v: is(health.Suspect, health.Silence, reset), was: up, want: "Unknown/Suspect True/ExternallyIssued False/Disconnected Unknown/NotConnected"},
		"silent on an open stream":          {v: is(health.Suspect, health.Silence, open), was: up, want: "Unknown/Suspect True/ExternallyIssued True/Connected True/Synced"},
		"does not keep up":                  {v: is(health.Suspect, health.Stalled, lost(protocol.ErrStalled)), was: up, want: "Unknown/Suspect True/ExternallyIssued False/Stalled Unknown/NotConnected"},
		"recovers":                          {v: is(health.Suspect, health.Recovering, open), want: "False/Recovering True/ExternallyIssued True/Connected True/Synced"},
		"quarantined":                       {v: is(health.Suspect, health.Quarantined, open), want: "False/Quarantined True/ExternallyIssued True/Connected True/Synced"},
		"gone":                              {v: is(health.Unreachable, health.Silence, reset), certificate: certificate(1), was: up, want: "False/Unreachable True/Enrolled False/Disconnected Unknown/NotConnected"},
		"gone for longer than it may":       {v: is(health.Unreachable, health.Silence, lost(link.ErrCertificate)), certificate: certificate(0), was: up, want: "False/Unreachable False/CertificateExpired False/CertificateExpired Unknown/NotConnected"},
		"an earlier leader saw why":         {v: is(health.Unreachable, health.Silence), was: was("Connected=False/Stalled"), want: "False/Unreachable True/ExternallyIssued False/Stalled Unknown/NotConnected"},
		"the cause was not observed":        {v: is(health.Unreachable, health.Silence), was: up, want: "False/Unreachable True/ExternallyIssued False/Disconnected Unknown/NotConnected"},
		"of a new leader":                   {v: is(health.Unknown, ""), was: up, want: "True/Connected True/ExternallyIssued True/Connected True/Synced"},
		"of a new leader, gone before":      {v: is(health.Unknown, ""), was: was("Ready=False/Unreachable", "Connected=False/Stalled"), want: "False/Unreachable True/ExternallyIssued False/Stalled Unknown/NotConnected"},
		"of a new leader, nothing written":  {v: is(health.Unknown, ""), want: "Unknown/Suspect True/ExternallyIssued False/Disconnected Unknown/NotConnected"},
		"another cluster's agent":           {v: is(health.Unreachable, health.Silence, otherCluster), want: "False/FingerprintChanged True/ExternallyIssued False/FingerprintChanged Unknown/NotConnected"},
		"another cluster's, and never one":  {v: is(health.NeverConnected, "", never, otherCluster), certificate: certificate(1), want: "False/FingerprintChanged True/Enrolled False/NeverConnected Unknown/NotConnected"},
		"another cluster's, and it is well": {v: is(health.Ready, "", otherCluster, settling), was: up, want: "True/Connected True/ExternallyIssued False/FingerprintChanged True/Synced"},
		"not understood":                    {v: is(health.Unreachable, health.Silence, incompatible, reset), was: up, want: "False/Incompatible True/ExternallyIssued False/Incompatible Unknown/NotConnected"},
		"not understood, and never was":     {v: is(health.NeverConnected, "", never, incompatible), certificate: certificate(1), want: "False/Incompatible True/Enrolled False/NeverConnected Unknown/NotConnected"},
		"revoked":                           {v: is(health.Unreachable, health.Revoked, revoked, lost(link.ErrRevoked)), certificate: certificate(1), was: up, want: "False/Revoked False/Revoked False/Revoked Unknown/NotConnected"},
		"admitted again":                    {v: is(health.Unreachable, health.Silence, lost(link.ErrRevoked)), certificate: &v1alpha1.MemberCertificate{}, want: "False/Unreachable False/AwaitingAgent False/Revoked Unknown/NotConnected"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			status := &v1alpha1.MemberClusterStatus{Conditions: c.was, Certificate: c.certificate}
			var got []string
			for _, one := range conditionsOf(c.v, status) {
				got = append(got, string(one.Status)+"/"+one.Reason)
				g.Expect(one.Message).NotTo(BeEmpty())
			}
			g.Expect(strings.Join(got, " ")).To(Equal(c.want))
		})
	}
}

func TestConditionsOfAMemberNameTheRemedy(t *testing.T) {
	g := NewWithT(t)
	v := view{Verdict: health.Verdict{State: health.NeverConnected}, facts: facts{name: "eu-west"}}
	g.Expect(enrolledCondition(v, nil).Message).To(ContainSubstring("`kubectl vdi join eu-west`"))
	g.Expect(readyCondition(v, nil).Message).To(ContainSubstring("`kubectl vdi join eu-west`"))
	v.revoked, v.Cause = true, health.Revoked
	g.Expect(readyCondition(v, nil).Message).To(And(ContainSubstring("spec.access to Allowed"), ContainSubstring("kubectl vdi join")))
	v = view{Verdict: health.Verdict{State: health.Unreachable}, facts: facts{connectionHistory: connectionHistory{otherCluster: "new", connectedAt: time.Now()}, agent: agent{fingerprint: "old"}}}
	g.Expect(readyCondition(v, nil).Message).To(And(ContainSubstring(`"new"`), ContainSubstring(`"old"`), ContainSubstring("create a new MemberCluster")))
}

func TestWhatAConditionQuotesIsBounded(t *testing.T) {
	g := NewWithT(t)
	_, why := lossOf(errors.New(strings.Repeat("é\x1b[31m\n", 1000)))
	g.Expect(len(why)).To(BeNumerically("<=", maxWhy))
	g.Expect(why).To(HaveSuffix("…"))
	g.Expect(why).NotTo(Or(ContainSubstring("\x1b"), ContainSubstring("\n"), ContainSubstring("�")))
	_, why = lossOf(fmt.Errorf("sending: %w: its buffer is full", protocol.ErrStalled))
	g.Expect(why).To(Equal("sending: the agent does not keep up: its buffer is full"))
}

func TestMembersThatHaveEverConnected(t *testing.T) {
	g := NewWithT(t)
	mc := newMemberObject("eu")
	g.Expect(everConnected(mc)).To(BeFalse())
	mc.Status.Fingerprint = "fp"
	g.Expect(everConnected(mc)).To(BeFalse(), "it has enrolled and no more")
	mc.Status.AgentVersion = "1.0"
	g.Expect(everConnected(mc)).To(BeTrue(), "written before there was the condition")
	v1alpha1.SetCondition(&mc.Status.Conditions, 1, condition(v1alpha1.ConditionConnected)(metav1.ConditionFalse, v1alpha1.ReasonNeverConnected, ""))
	g.Expect(everConnected(mc)).To(BeFalse())
	v1alpha1.SetCondition(&mc.Status.Conditions, 1, condition(v1alpha1.ConditionConnected)(metav1.ConditionFalse, v1alpha1.ReasonDisconnected, ""))
	g.Expect(everConnected(mc)).To(BeTrue())
}
