package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// place places a session without a member, under the next epoch.
func place(p *pass) next {
	s := p.Session
	if s.Status.Placement != nil {
		return proceed
	}
	if reason, message := notToPlace(p); reason != "" {
		p.Release = reason != v1alpha1.ReasonReleasing
		p.unscheduled(reason, message)
		return done
	}
	if p.acquireHome() == done {
		return done
	}
	policy, _ := p.in.Policies.Governing(s)
	req := p.request(policy)
	if pauses(p) {
		return done
	}
	mode := status.FailoverFor(s, p.spec, policy).Mode
	if message := awaitsReports(p, mode); message != "" {
		return p.waitFor(v1alpha1.ReasonHubRestored, message)
	}
	epoch := p.in.nextEpoch(s)
	decision, ok := p.decide(Request{Evaluate: true, Request: scheduling.Request{Placement: req, Epoch: epoch}})
	switch {
	case !ok:
		p.Hold = true
		return done
	case !decision.Placed:
		p.Result = ResultUnschedulable
		p.unscheduled(decision.Reason, explained(decision, decision.Message))
		return done
	}
	p.Placed = p.placed(decision.Decision, policy, epoch, mode)
	p.Result = ResultPlaced // the condition has the reasons, and the event of the start follows
	return proceed
}

// notToPlace returns why a session is not to be placed whatever the capacity, or "" if
// it is.
func notToPlace(p *pass) (reason, message string) {
	s := p.Session
	switch failed := status.FailedPermanently(s); {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return v1alpha1.ReasonSuspended, "suspended, and placed nowhere: set spec.operatingMode to Running"
	case status.TimeOver(s, p.spec):
		return v1alpha1.ReasonTimeExpired, status.ExpiredMessage(s, p.spec)
	case failed != nil && s.Spec.Attempt <= s.Status.Attempt:
		return failed.Reason, failed.Message
	case len(status.AwaitedReleases(s)) > 0:
		return v1alpha1.ReasonReleasing, status.ReleasingMessage(s, p.awaitedStop)
	}
	return "", ""
}

// placed writes a decision to place into the status, under a new epoch. policy may be nil.
func (p *pass) placed(d placement.Decision, policy *v1alpha1.PlacementPolicy, epoch int64, mode v1alpha1.FailoverMode) *v1alpha1.Placement {
	at := &v1alpha1.Placement{
		ClusterName: d.Cluster.Name, ClusterUID: d.Cluster.UID, Region: d.Region,
		Epoch: epoch, PlacementTime: status.Seconds(p.in.Now), Run: 1, FailoverMode: mode,
	}
	if policy != nil {
		at.Policy = policy.Name
	}
	p.scheduled(at, d)
	return at
}

// scheduled writes a decision to place, or to run again, into the status: a new run begins,
// of which the member has no order yet. The template's revision is stored before.
func (p *pass) scheduled(at *v1alpha1.Placement, d placement.Decision) {
	s := p.Session
	p.Decision = d
	if p.template != nil {
		p.Revision = p.revision
	}
	s.Status.Placement, s.Status.Epoch = at, max(s.Status.Epoch, at.Epoch)
	s.Status.TemplateRevision, s.Status.Resources, s.Status.Attempt = p.revision, p.resources, s.Spec.Attempt
	s.Status.AccessSecretName = secret.AccessName(s, p.spec)
	status.SetTrue(s, v1alpha1.ConditionScheduled, d.Reason, d.Message)
	status.SetSending(s)
}

// unscheduled shows why the session has no member.
func (p *pass) unscheduled(reason, message string) {
	s := p.Session
	if status.SetFalse(s, v1alpha1.ConditionScheduled, reason, message) {
		p.warn(v1alpha1.EventWaiting, "Place", message)
	}
}

// waitFor shows that the session has no member for a reason other than capacity.
func (p *pass) waitFor(reason, message string) next {
	p.unscheduled(reason, message)
	p.Waits = reason
	return done
}

// request returns the session's placement request. policy may be nil.
func (p *pass) request(policy *v1alpha1.PlacementPolicy) placement.Request {
	req := placement.RequestFor(p.Session, p.spec, p.revision, policy)
	req.Resources = placement.ResourcesOf(p.resources)
	if req.Refused = maps.Clone(p.in.Known.Excluded); req.Refused == nil {
		req.Refused = map[types.UID]string{}
	}
	req.RefusedFree = maps.Clone(p.in.Known.RefusedFree)
	for _, o := range p.Session.Status.Releasing {
		req.Exclude(o.ClusterUID, fmt.Sprintf("it has not confirmed yet that the session's copy of epoch %d is stopped there", o.Epoch))
	}
	req.Failover = status.Displaced(p.Session)
	req.Home = p.home.pinned
	return req
}

// pauses reports whether the session pauses because too many members in a row have refused
// it. The condition names them.
func pauses(p *pass) bool {
	s, known := p.Session, &p.in.Known
	if known.Pause == 0 {
		return false
	}
	if status.ReasonOf(s, v1alpha1.ConditionScheduled) != v1alpha1.ReasonRefused {
		p.unscheduled(v1alpha1.ReasonRefused, "refused: "+strings.Join(slices.Sorted(maps.Values(known.Refused)), "; ")+"; it is retried after a pause")
	}
	p.Waits = v1alpha1.ReasonRefused
	p.soon(known.Pause)
	return true
}

// placedBy returns the policy by which the session was placed or, if that no longer
// exists, the one that governs it now, or nil.
func (p *pass) placedBy() *v1alpha1.PlacementPolicy {
	if by := p.in.Policies.Named(p.Session.Status.Placement.Policy); by != nil {
		return by
	}
	policy, _ := p.in.Policies.Governing(p.Session)
	return policy
}

// url returns the URL of the session where it is placed.
func (p *pass) url() (string, bool) {
	s := p.Session
	m := p.in.Members[s.Status.Placement.ClusterUID]
	return m.Spec.IngressOrigin(v1alpha1.AssignmentName(s.Name, s.UID)) + p.spec.Path, m.Known
}

// address sets the session's URL: of its page in the console, or where its desktop is. A session that an
// earlier version of the hub has placed has no endpoint, and keeps its URL.
func (p *pass) address() {
	s := p.Session
	switch {
	case p.in.Console != "":
		s.Status.URL = p.in.Console + "/s/" + s.Namespace + "/" + s.Name
	case s.Status.Endpoint != nil:
		s.Status.URL = s.Status.Endpoint.URL
	case s.Status.Placement == nil:
		s.Status.URL = ""
	}
}

func refOf(p *v1alpha1.Placement) v1alpha1.ClusterRef {
	return v1alpha1.ClusterRef{Name: p.ClusterName, UID: p.ClusterUID}
}

// explained returns why a session fits in no member, and, if that applies, that it is
// only rechecked periodically.
func explained(a scheduling.Answer, message string) string {
	if a.ClassLimit == "" {
		return message
	}
	return fmt.Sprintf("%s; it is rechecked every %s at the latest and not when capacity is reported, since %s are waiting before it: delete sessions, or request the same resources and placement as others",
		message, scheduling.RecheckAtMost, a.ClassLimit)
}
