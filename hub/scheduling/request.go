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

// Request is what a session asks of the fleet.
type Request struct {
	Session types.NamespacedName
	// Rank of the session among those that wait.
	Rank queue.Rank
	// Placement asks for a member that fits, and Epoch is the placement's if there is one.
	Placement placement.Request
	Epoch     int64
	// Resume asks for the member where the session is idle before it asks for another; nil:
	// it is placed nowhere.
	Resume *Resume
	// Failover asks on behalf of a session whose member is lost; nil: it is not.
	Failover *Failover
	// Reason that the session gives while it is pending; empty: that of the decision.
	Reason string
}

// Resume asks to run a session again in the member where it is idle.
type Resume struct {
	// Placement asks for capacity in that member.
	Placement placement.Request
	Member    v1alpha1.ClusterRef
	// Epoch that the session has there, and its next run.
	Epoch, Run int64
	// Stays: it goes to no other member.
	Stays bool
}

// Failover asks for another member than the lost one.
type Failover struct {
	Session failover.Session
	From    types.UID
}

// Answer to a request.
type Answer struct {
	// Decision on the request; of a resume, the one on the member where the session is.
	placement.Decision
	// Other is the decision on another member, where a resume asked for one; nil: it was not
	// asked for.
	Other *placement.Decision
	// Verdict on a failover.
	Verdict failover.Verdict
	// Crowd says how many other requests of the same user or namespace are pending, where
	// there are so many that this one is only decided on again by time; empty: there are not.
	Crowd string
	// Again is when to ask again at the latest; zero: at the next event.
	Again time.Duration
}

// reserved reports whether capacity was reserved for the answer.
func (a *Answer) reserved() bool { return a.Placed || a.Other != nil && a.Other.Placed }

// says reports whether two answers have the same reasons and messages.
func (a *Answer) says(b *Answer) bool {
	if a.Reason != b.Reason || a.Message != b.Message || a.Crowd != b.Crowd || a.Verdict.Message != b.Verdict.Message || (a.Other == nil) != (b.Other == nil) {
		return false
	}
	return a.Other == nil || a.Other.Message == b.Other.Message
}

// pending reports whether the session is to wait until something changes.
func (a *Answer) pending(r *Request) bool {
	return !a.reserved() && (r.Failover == nil || a.Verdict.Due && a.Verdict.Wait == 0)
}

// same reports whether the answer to one request is one to the other.
func (r *Request) same(other *Request) bool {
	return r.Epoch == other.Epoch && r.Reason == other.Reason &&
		equality.Semantic.DeepEqual(&r.Placement, &other.Placement) &&
		equality.Semantic.DeepEqual(r.Resume, other.Resume) && equality.Semantic.DeepEqual(r.Failover, other.Failover)
}

// class is the same for requests that are answered alike: of what is asked, all that
// decides whether it fits, and nothing that decides where. Who asks belongs to it only
// where the policy counts by users.
func (r *Request) class() string {
	p := &r.Placement
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %q", p.Template.Name, p.Template.Revision, p.Namespace, p.PolicyName)
	if p.Policy != nil && p.Policy.SessionCaps.PerUser != nil {
		fmt.Fprintf(&b, " user %q", p.User)
	}
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
	}
	if r.Resume != nil {
		fmt.Fprintf(&b, " idle in %q %t", r.Resume.Member.UID, r.Resume.Stays)
	}
	fmt.Fprintf(&b, " failover %t", p.Failover)
	return b.String()
}

// willing is the request without the refusal of one member.
func (r *Request) willing(member types.UID) placement.Request {
	req := r.Placement
	req.Refused = maps.Clone(req.Refused)
	delete(req.Refused, member)
	return req
}
