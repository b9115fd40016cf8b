package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// world simulates members with nodes, their agents and the messages to the hub, under
// any interleaving. Sessions land on a random node of those where they fit, as with
// the worst possible scheduler.
type world struct {
	ledger   *Ledger
	members  []*simMember
	sessions map[types.UID]*simSession
	placed   int
}

type simMember struct {
	candidate Candidate
	nodes     []Resources
	// kinds of the nodes: Free for all that exist. The others are of its only node group.
	kinds     []Kind
	otherPods []landing
	sequence  uint64
	// inFlight are the agent's undelivered messages, in order.
	inFlight []func()
	// counted are the sessions that the hub's newest report counts.
	counted map[types.UID]bool
}

type simSession struct {
	uid       types.UID
	epoch     int64
	member    *simMember
	template  TemplateKey
	resources Resources
	// kind of its slot, by the hub's decision.
	kind Kind
	// stored on a node since the order was received; gone once the Pod is.
	stored, gone bool
	node         int

	// run is the session's desired run, or the last one if it is idle; has is the desired
	// state that the member has stored, empty if it has none.
	run  int64
	idle bool
	has  string
}

type landing struct {
	node      int
	resources Resources
}

// first is a template that may use only the first node of a member.
var first = TemplateKey{Name: "first", Revision: "r1"}

// fitting returns the nodes of any kind on which a session fits.
func (m *simMember) fitting(template TemplateKey, r Resources) []int {
	var out []int
	s := newShape(r)
	for i, free := range m.nodes {
		if (template == desk || i == 0) && s.fitsOn(free.Amounts()) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// refuses reports whether the agent refuses an order that may add no node: no node that exists fits,
// but one that does not.
func (m *simMember) refuses(s *simSession, fitting []int) bool {
	grows := func(node int) bool { return m.kinds[node] != Free }
	return s.kind == Free && slices.ContainsFunc(fitting, grows) && !slices.ContainsFunc(fitting, func(node int) bool { return !grows(node) })
}

func (m *simMember) take(node int, r Resources, sign int64) {
	m.nodes[node][corev1.ResourcePods] -= sign
	for name, amount := range r {
		m.nodes[node][name] -= sign * amount
	}
}

func newWorld(t *rapid.T, kinds ...Kind) *world {
	w := &world{ledger: NewLedger(), sessions: map[types.UID]*simSession{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "members") {
		m := &simMember{candidate: member(fmt.Sprint("m", i), 0), counted: map[types.UID]bool{}}
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			node := drawResources(t, "node", 0, 8)
			node[corev1.ResourcePods] = rapid.Int64Range(1, 6).Draw(t, "pods")
			m.nodes = append(m.nodes, node)
			m.kinds = append(m.kinds, rapid.SampledFrom(kinds).Draw(t, "kind"))
		}
		w.members = append(w.members, m)
		w.report(m)
		w.deliverAll(m)
	}
	return w
}

// report snapshots the member and sends it.
func (w *world) report(m *simMember) {
	m.sequence++
	sequence, capacity, counted := m.sequence, reporting(), map[types.UID]bool{}
	capacity.NodeGroups = []NodeGroup{{Name: "g", State: v1alpha1.NodeGroupAvailable}}
	capacity.Templates[desk], capacity.Templates[first] = m.capacityOf(len(m.nodes)), m.capacityOf(min(1, len(m.nodes)))
	for _, s := range w.sessions {
		if s.member == m && s.stored && !s.gone {
			counted[s.uid] = true
		}
	}
	m.inFlight = append(m.inFlight, func() {
		m.candidate.Capacity, m.counted = capacity, counted
		w.ledger.Reported(m.candidate.UID, sequence)
	})
}

// capacityOf returns the capacity of the first nodes.
func (m *simMember) capacityOf(nodes int) TemplateCapacity {
	c := TemplateCapacity{Available: true}
	growth := &Growth{}
	for i, free := range m.nodes[:nodes] {
		b := Bucket{Nodes: 1, Free: free.Amounts()}
		switch m.kinds[i] {
		case Free:
			c.Buckets = append(c.Buckets, b)
			continue
		case Provisioning:
			growth.Provisioning = append(growth.Provisioning, NodeGroupBucket{b, "g"})
		case Growable:
			growth.Growable = append(growth.Growable, NodeGroupBucket{b, "g"})
		}
		c.Growth = growth
	}
	return c
}

func (w *world) deliver(m *simMember) {
	next := m.inFlight[0]
	m.inFlight = m.inFlight[1:]
	next()
}

func (w *world) deliverAll(m *simMember) {
	for len(m.inFlight) > 0 {
		w.deliver(m)
	}
}

func (w *world) candidates() []Candidate {
	var out []Candidate
	for _, m := range w.members {
		out = append(out, m.candidate)
	}
	return out
}

// place decides with the production code on a new session, or on one that has stopped,
// under its next epoch.
func (w *world) place(t *rapid.T) {
	s := &simSession{uid: types.UID(fmt.Sprint("s", w.placed)), resources: drawResources(t, "session", 1, 3)}
	s.template = rapid.SampledFrom([]TemplateKey{desk, first}).Draw(t, "template")
	for _, old := range w.inOrder() {
		if old.member == nil && rapid.Bool().Draw(t, "again") {
			s = old
			break
		}
	}
	r := session(string(s.uid))
	r.Resources, r.Template = s.resources, s.template
	d := Place(r, w.candidates(), w.ledger)
	if !d.Placed {
		return
	}
	w.placed++
	i := slices.IndexFunc(w.members, func(m *simMember) bool { return m.candidate.UID == d.Cluster.UID })
	s.epoch, s.member, s.stored, s.gone, s.kind = s.epoch+1, w.members[i], false, false, d.Kind
	s.run, s.idle, s.has = 1, false, ""
	w.sessions[s.uid] = s
	w.reserve(s)
	w.reserve(s)
}

func (w *world) reserve(s *simSession) {
	w.ledger.ReserveFor(s.uid, s.epoch, s.member.candidate.UID, s.template, s.resources)
}

// store stores sessions on nodes. It detects overcommitment.
func (w *world) store(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || s.gone || s.idle || s.has == s.desired() || rapid.Bool().Draw(t, "later") {
			continue
		}
		if !s.stored {
			fitting := s.member.fitting(s.template, s.resources)
			if len(fitting) == 0 {
				t.Fatalf("%s was placed where no node has capacity for %v: %v", s.uid, s.resources, s.member.nodes)
			}
			if s.member.refuses(s, fitting) {
				w.stopped(s, s.member, s.epoch)
				continue
			}
			s.node, s.stored = rapid.SampledFrom(fitting).Draw(t, "lands on"), true
			s.member.take(s.node, s.resources, 1)
		}
		w.acknowledge(s)
	}
}

// acknowledge stores the desired state in the member, which acknowledges it.
func (w *world) acknowledge(s *simSession) {
	m, epoch, desired, from := s.member, s.epoch, s.desired(), s.member.sequence+1
	w.ledger.Expect(s.uid, epoch, m.candidate.UID, desired)
	s.has = desired
	m.inFlight = append(m.inFlight, func() { w.ledger.CountedFrom(s.uid, epoch, m.candidate.UID, desired, from) })
}

// stop ends stored sessions; the hub is notified later.
func (w *world) stop(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || !s.stored || s.gone || rapid.Bool().Draw(t, "spared") {
			continue
		}
		s.gone = true
		s.member.take(s.node, s.resources, -1)
		m, epoch := s.member, s.epoch
		m.inFlight = append(m.inFlight, func() { w.stopped(s, m, epoch) })
	}
}

func (w *world) stopped(s *simSession, m *simMember, epoch int64) {
	w.ledger.Release(s.uid, epoch, m.candidate.UID)
	if s.member == m && s.epoch == epoch {
		s.member = nil
	}
}

// changeOtherPods removes other Pods at any time; it adds one only with a report that is
// delivered at once, since the hub can't count an unreported one.
func (w *world) changeOtherPods(t *rapid.T) {
	m := rapid.SampledFrom(w.members).Draw(t, "member")
	if len(m.otherPods) > 0 && rapid.Bool().Draw(t, "remove") {
		m.take(m.otherPods[0].node, m.otherPods[0].resources, -1)
		m.otherPods = m.otherPods[1:]
		return
	}
	for _, s := range w.sessions {
		if s.member == m && !s.stored {
			return // an undelivered order may have capacity only here
		}
	}
	r := drawResources(t, "other", 0, 4)
	if fitting := m.fitting(desk, r); len(fitting) > 0 {
		l := landing{rapid.SampledFrom(fitting).Draw(t, "node"), r}
		m.take(l.node, r, 1)
		m.otherPods = append(m.otherPods, l)
		w.report(m)
		w.deliverAll(m)
	}
}

// restartAgent loses the undelivered messages; the new instance sends its whole
// inventory and then a report.
func (w *world) restartAgent(t *rapid.T) {
	m := rapid.SampledFrom(w.members).Draw(t, "member")
	m.inFlight, m.sequence = nil, 0
	w.ledger.Reset(m.candidate.UID)
	for _, s := range w.inOrder() {
		switch {
		case s.member != m || s.has == "":
		case s.gone:
			w.stopped(s, m, s.epoch)
		default:
			w.ledger.CountedFrom(s.uid, s.epoch, m.candidate.UID, s.has, 1)
		}
	}
	w.report(m)
}

// restartHub rebuilds the reservations from the statuses before it receives anything
// from the members.
func (w *world) restartHub() {
	w.ledger = NewLedger()
	for _, s := range w.inOrder() {
		if s.member != nil && !s.idle {
			w.rebuild(s)
		}
	}
	for _, m := range w.members {
		m.candidate.Capacity, m.counted, m.inFlight = nil, map[types.UID]bool{}, nil
		for _, s := range w.inOrder() {
			switch {
			case s.member != m || s.has == "":
			case s.gone:
				w.stopped(s, m, s.epoch)
			default:
				w.ledger.CountedFrom(s.uid, s.epoch, m.candidate.UID, s.has, m.sequence+1)
				w.ledger.Expect(s.uid, s.epoch, m.candidate.UID, s.desired())
			}
		}
		w.report(m)
	}
}

func (w *world) inOrder() []*simSession {
	var out []*simSession
	for _, uid := range slices.Sorted(maps.Keys(w.sessions)) {
		out = append(out, w.sessions[uid])
	}
	return out
}

// check requires that every placed session is reserved, or counted by the hub's newest
// report.
func (w *world) check(t *rapid.T) {
	for _, s := range w.sessions {
		if s.member == nil || s.gone || s.idle || s.member.candidate.Capacity == nil {
			continue
		}
		_, reserved := w.ledger.accounts[s.member.candidate.UID].reservations[s.uid]
		if !reserved && !s.member.counted[s.uid] {
			t.Fatalf("%s, epoch %d, is neither reserved nor counted", s.uid, s.epoch)
		}
	}
}

// settle delivers everything, and requires that the ledger is then empty.
func (w *world) settle(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member != nil && s.has != s.desired() {
			w.ledger.Release(s.uid, s.epoch, s.member.candidate.UID)
			s.member = nil
		}
	}
	for _, m := range w.members {
		w.report(m)
		w.deliverAll(m)
		if n := w.ledger.Outstanding(m.candidate.UID); n != 0 {
			t.Fatalf("%d reservations left in %s with nothing on its way", n, m.candidate.Name)
		}
		if groups := w.ledger.accounts[m.candidate.UID].groups; len(groups) != 0 {
			t.Fatalf("groups left: %v", groups)
		}
	}
}

func TestNeverOverANodeUnderAnyInterleaving(t *testing.T) { interleave(t, Free) }

// Sessions of several templates share the nodes that a group may add. Together they never exceed them,
// whichever nodes they land on and whenever these become usable.
func TestNeverOverTheLimitOfAGroupUnderAnyInterleaving(t *testing.T) {
	interleave(t, Free, Provisioning, Growable, Growable)
}

func interleave(t *testing.T, kinds ...Kind) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, kinds...)
		t.Repeat(map[string]func(*rapid.T){
			"place":     w.place,
			"store":     w.store,
			"stop":      w.stop,
			"suspend":   w.suspend,
			"stop idle": w.stopIdle,
			"resume":    w.resume,
			"deliver": func(t *rapid.T) {
				if m := rapid.SampledFrom(w.members).Draw(t, "member"); len(m.inFlight) > 0 {
					w.deliver(m)
				}
			},
			"report":        func(t *rapid.T) { w.report(rapid.SampledFrom(w.members).Draw(t, "member")) },
			"other Pods":    w.changeOtherPods,
			"nodes":         w.changeNodes,
			"restart agent": w.restartAgent,
			"restart hub":   func(*rapid.T) { w.restartHub() },
			"":              w.check,
		})
		w.settle(t)
	})
}
