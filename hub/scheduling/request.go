package scheduling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

// Request is a session's request for placement.
type Request struct {
	Session types.NamespacedName
	// Rank of the session in the queue.
	Rank queue.Rank
	// Placement is the request for a member, and Epoch the one that its placement would get.
	Placement placement.Request
	Epoch     int64
	// Resume is set to try the member where the session is idle before others, nil for a
	// session without a placement.
	Resume *Resume
	// Failover is set for a session of a lost member.
	Failover *Failover
	// Reason of the session's condition while it is pending, by default that of the decision.
	Reason string
	// Shown is set if the session's status already shows why no member fits it.
	Shown bool
}

// Resume is a request to run a session again in the member where it is idle.
type Resume struct {
	// Placement is the request for capacity in that member.
	Placement placement.Request
	Member    v1alpha1.ClusterRef
	// Epoch that the session has there, and its next run.
	Epoch, Run int64
	// Pinned is set if no other member may be tried.
	Pinned bool
}

// Failover is a request for another member than the lost one.
type Failover struct {
	Session failover.Session
	From    types.UID
}

// Answer is the result of a request.
type Answer struct {
	// Decision on the request; for a resume, the one on the session's current member.
	placement.Decision
	// Other is the decision on another member, if a resume tried one.
	Other *placement.Decision
	// Verdict on a failover.
	Verdict failover.Verdict
	// ClassLimit describes the limit of distinct requests of the user or namespace, if it
	// is reached, so that this one is only rechecked by time.
	ClassLimit string
	// Again is the time after which to retry at the latest, zero to wait for an event.
	Again time.Duration
}

// reserved reports whether capacity was reserved for the answer.
func (a *Answer) reserved() bool { return a.Placed || a.Other != nil && a.Other.Placed }

// sameText reports whether two answers have the same reasons and messages.
func (a *Answer) sameText(b *Answer) bool {
	if a.Reason != b.Reason || a.Message != b.Message || a.ClassLimit != b.ClassLimit || a.Verdict.Message != b.Verdict.Message || (a.Other == nil) != (b.Other == nil) {
		return false
	}
	return a.Other == nil || a.Other.Message == b.Other.Message
}

// pending reports whether the session waits until something changes.
func (a *Answer) pending(r *Request) bool {
	return !a.reserved() && (r.Failover == nil || a.Verdict.Due && a.Verdict.Wait == 0)
}

// capped reports whether a cap of the policy keeps the session pending.
func (a *Answer) capped() bool {
	return a.Reason == v1alpha1.ReasonPolicyCap || a.Other != nil && a.Other.Reason == v1alpha1.ReasonPolicyCap
}

// same reports whether an answer to one request is valid for the other.
func (r *Request) same(other *Request) bool {
	return r.Epoch == other.Epoch && r.Reason == other.Reason &&
		equality.Semantic.DeepEqual(&r.Placement, &other.Placement) &&
		equality.Semantic.DeepEqual(r.Resume, other.Resume) && equality.Semantic.DeepEqual(r.Failover, other.Failover)
}

// class returns the key of the request's equivalence class: all that decides whether it fits,
// without preferences, and without the user, whom only a cap of the policy depends on.
func (r *Request) class() string {
	p := &r.Placement
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %q", p.Template.Name, p.Template.Revision, p.Namespace, p.PolicyName)
	for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
		fmt.Fprintf(&b, " %q=%d", name, p.Resources[name])
	}
	if len(p.RequiredRegions) > 0 {
		fmt.Fprintf(&b, " in %q", p.RequiredRegions)
	}
	if p.ClusterSelector != nil {
		fmt.Fprintf(&b, " where %q", metav1.FormatLabelSelector(p.ClusterSelector))
	}
	for i := range p.ClusterTolerations {
		t := &p.ClusterTolerations[i]
		fmt.Fprintf(&b, " tolerates %q %q %q %q", t.Key, t.Operator, t.Value, t.Effect)
	}
	if p.Home != nil {
		fmt.Fprintf(&b, " home %q", p.Home.UID)
	}
	if len(p.Refused) > 0 {
		fmt.Fprintf(&b, " not %q", slices.Sorted(maps.Keys(p.Refused)))
		if len(p.RefusedFree) > 0 {
			fmt.Fprintf(&b, " but on new nodes of %q", slices.Sorted(maps.Keys(p.RefusedFree)))
		}
	}
	if r.Resume != nil {
		fmt.Fprintf(&b, " idle in %q %t", r.Resume.Member.UID, r.Resume.Pinned)
	}
	fmt.Fprintf(&b, " failover %t", p.Failover)
	if p.FreeOnly {
		b.WriteString(" free only")
	}
	return b.String()
}

// cappedClass returns the key of the class of sessions that a cap of their policy keeps pending, and not capacity. It
// includes the user if the policy has a cap per user.
func (r *Request) cappedClass() string {
	key := r.class() + " capped"
	if r.countsUser() {
		key += fmt.Sprintf(" user %q", r.Placement.User)
	}
	return key
}

// countsUser reports whether the request's policy has a cap per user.
func (r *Request) countsUser() bool {
	p := r.Placement.Policy
	return p != nil && p.SessionCaps.PerUser != nil
}

// ofAnyUser returns the request without the cap of its user: the sessions of a class have different users.
func (r *Request) ofAnyUser() *Request {
	if !r.countsUser() {
		return r
	}
	out, p := *r, *r.Placement.Policy
	p.SessionCaps.PerUser = nil
	out.Placement.Policy = &p
	return &out
}

// withoutRefusal returns the request without the refusal of one member.
func (r *Request) withoutRefusal(member types.UID) placement.Request {
	req := r.Placement
	req.Refused = maps.Clone(req.Refused)
	delete(req.Refused, member)
	return req
}
