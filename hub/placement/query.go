package placement

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// query is a request with its selectors compiled once for all candidates.
type query struct {
	*Request
	class    *requestClass
	strategy ranking
	// hash of the session's UID.
	hash uint64
	// asked are the namespaces of the last call of admits, and admitted is its result.
	asked    Namespaces
	admitted bool
	// noLimit is a resource with a request of zero, which would set no limit.
	noLimit corev1.ResourceName

	// regions are the required regions, with the field that requires them.
	regions []regionRule
	// selectors must all match; each has the field that contains it.
	selectors []clusterRule
	// preferred selects the members that the policy prefers, nil if it prefers none.
	preferred labels.Selector
	// policyRegions are the regions that the policy prefers, in order.
	policyRegions []string
	// overflow are the policy's tiers, if any.
	overflow []tier
	// freeTiers is set if some tier admits only free slots.
	freeTiers bool
	// provisioningLimit is how long the nodes of a group may usually take, to be used.
	provisioningLimit time.Duration
	// grows is set if some candidate has node groups; only Explain sets it.
	grows bool
	// offered is the result of the last call of offer, for this account: the capacity filter and the
	// score use it one after the other.
	offered struct {
		account *account
		kind    Kind
		left    int64
	}
	// caps are the policy's caps on all members together, and cap the first that is reached,
	// nil if there is none.
	caps []policyCap
	cap  *policyCap
}

// regionRule is a list of required regions and the field that holds it.
type regionRule struct {
	field   string
	regions []string
	violation
}

// clusterRule is a selector over the labels of members and the field that
// holds it.
type clusterRule struct {
	field    string
	selector labels.Selector
	text     string
	violation
}

// violation is what those members lack that violate a rule. It is rendered once: a rule may
// exclude a thousand members.
type violation struct{ lack *lack }

func (v *violation) once(render func() lack) lack {
	if v.lack == nil {
		l := render()
		v.lack = &l
	}
	return *v.lack
}

func newQuery(r *Request, ledger *Ledger) *query {
	ledger.decisions++
	q := &query{
		Request:  r,
		class:    ledger.class(r.Template, r.Resources),
		strategy: leastLoaded,
		hash:     hashOf(r.UID),
		noLimit:  r.Resources.withoutLimit(),

		provisioningLimit: v1alpha1.DefaultMaxProvisioningTime,
	}
	q.class.used = ledger.decisions
	ledger.selects(q.class.nodes, r.NodeSelector)
	q.requireRegions("spec.placement.requiredRegions", r.RequiredRegions)
	q.requireClusters("spec.placement.clusterSelector", r.ClusterSelector)
	if p := r.Policy; p != nil {
		q.requireRegions("the policy's requiredRegions", p.RequiredRegions)
		q.requireClusters("the policy's requiredClusters", p.RequiredClusters)
		q.policyRegions, q.overflow, q.provisioningLimit = p.PreferredRegions, tiersOf(p.Overflow), p.ProvisioningLimit()
		q.freeTiers = slices.ContainsFunc(q.overflow, func(t tier) bool { return t.freeOnly })
		q.caps = q.capsOf(p)
		if i := slices.IndexFunc(q.caps, func(c policyCap) bool { return c.count >= c.most }); i >= 0 {
			q.cap = &q.caps[i]
		}
		if p.PreferredClusters != nil {
			q.preferred, _ = compile(p.PreferredClusters)
		}
		if chosen, ok := strategies[p.Strategy]; ok {
			q.strategy = chosen
		}
	}
	q.requireClusters("the template's clusterSelector", r.TemplateClusterSelector)
	return q
}

// isCurrent reports whether the session is already placed in the candidate.
func (q *query) isCurrent(c *Candidate) bool { return q.Current != nil && q.Current.Cluster == c.UID }

// sessions returns how many sessions a candidate has, this one excluded.
func (q *query) sessions(c *Candidate) int64 {
	n := int64(c.Sessions)
	if q.isCurrent(c) {
		n--
	}
	return max(n, 0)
}

// policyRef returns the policy's name for explanations.
func (q *query) policyRef() string {
	if q.PolicyName == "" {
		return "the policy"
	}
	return "policy " + q.PolicyName
}

func (q *query) requireRegions(field string, regions []string) {
	if len(regions) > 0 {
		q.regions = append(q.regions, regionRule{field: field, regions: regions})
	}
}

func (q *query) requireClusters(field string, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	selector, text := compile(s)
	q.selectors = append(q.selectors, clusterRule{field: field, selector: selector, text: text})
}

// compile returns a selector and its text; a malformed one matches nothing.
func compile(s *metav1.LabelSelector) (labels.Selector, string) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), "malformed: " + strings.TrimSpace(err.Error())
	}
	return selector, selector.String()
}
