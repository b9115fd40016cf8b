package capacity

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
)

// Model is what the member holds and who uses it. It is not safe for
// concurrent use.
type Model struct {
	nodes       map[string]*node
	pods        map[types.UID]*Pod
	assignments map[types.UID]*Assignment
	templates   []*template

	storageClasses, ingressClasses Classes
	runtimeClasses                 map[string]RuntimeClass
	namespaces                     []string
	// notEnforced are those of the namespaces that do not enforce Pod Security.
	notEnforced []string
	// restrictions of the member's administrator.
	restrictions restriction.Settings

	// used on each node by bound Pods and assignments; also on nodes that
	// are not known (any more).
	used map[string]Resources
	// sessions by UID: what is there of each.
	sessions map[types.UID]*session
	// unbound is what no node is known of yet, by its owner's UID.
	unbound map[types.UID]*claim
	// version grows with everything that a report may show.
	version uint64
}

// Pod is what counts of a Pod.
type Pod struct {
	UID types.UID
	// Session that it is of; empty: somebody else's.
	Session types.UID
	// Node that it is bound to; empty: none yet.
	Node      string
	Resources Resources
	// NodeSelector and Tolerations matter until it is bound. They hold what its
	// runtime class asks already: Kubernetes writes that into a Pod.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Done: it has succeeded or failed and holds nothing.
	Done bool
}

// Assignment is what counts of a stored SessionAssignment.
type Assignment struct {
	// UID of the SessionAssignment, not of the session.
	UID     types.UID
	Session types.UID
	// Resources and constraints of the Pod that will be made for it. Until
	// then nobody knows its node.
	Resources    Resources
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	RuntimeClass string
	// Home: a volume of StorageClass; empty: of the default class.
	Home         bool
	StorageClass string
	// Idle: suspended, given up, out of time or stopping, so that no Pod will be
	// made for it.
	Idle bool
}

// Classes are names of storage or ingress classes, and whether one of them is
// the default.
type Classes struct {
	Names   map[string]bool
	Default bool
	// Topologies where a storage class makes volumes, by its name; that of the
	// default class has the empty name. One that is not here makes them anywhere.
	Topologies map[string][]corev1.TopologySelectorTerm
}

// RuntimeClass is what one asks of nodes.
type RuntimeClass struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Overhead that a Pod of it takes besides what its containers ask for.
	Overhead Resources
}

// node and what was reckoned from it.
type node struct {
	Node
	// free and rounded are void after a change of allocatable or used.
	free    Resources
	rounded *vector
	// allowed remembers which templates may use it, by their place in the model.
	allowed []verdict
}

// session is what there is of a session in the member.
type session struct {
	assignments map[types.UID]bool
	pods        int // that hold something
}

// claim is room that is taken on a node that nobody knows yet.
type claim struct {
	resources Resources
	demand    demand
	wishes
	// session that it is of; empty: somebody else's.
	session types.UID
}

// NewModel makes an empty model of a member whose administrator has set restrictions.
func NewModel(restrictions restriction.Settings) *Model {
	return &Model{
		restrictions: restrictions,
		nodes:        map[string]*node{},
		pods:         map[types.UID]*Pod{},
		assignments:  map[types.UID]*Assignment{},
		used:         map[string]Resources{},
		sessions:     map[types.UID]*session{},
		unbound:      map[types.UID]*claim{},
	}
}

// SetNode adds or replaces a node.
func (m *Model) SetNode(n Node) {
	if known := m.nodes[n.Name]; known != nil && known.equal(&n) {
		return
	}
	m.version++
	m.nodes[n.Name] = &node{Node: n}
}

// DeleteNode forgets a node. What is bound to it is remembered.
func (m *Model) DeleteNode(name string) {
	m.version++
	delete(m.nodes, name)
}

// Node returns the state of a node.
func (m *Model) Node(name string) observe.Node {
	n := m.nodes[name]
	if n == nil {
		return observe.Node{}
	}
	off := slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	return observe.Node{Known: true, Ready: n.Ready, Since: n.ReadySince, OutOfService: off}
}

// SetPod adds or replaces a Pod.
func (m *Model) SetPod(p Pod) {
	if known := m.pods[p.UID]; known != nil && known.equal(&p) {
		return
	}
	m.DeletePod(p.UID)
	m.version++
	m.pods[p.UID] = &p
	if p.Done {
		return
	}
	m.charge(p.UID, p.Session, p.Node, p.Resources, wishes{selector: p.NodeSelector, tolerations: p.Tolerations})
	if p.Session != "" {
		m.withSession(p.Session, func(s *session) { s.pods++ })
	}
}

// DeletePod forgets a Pod that the API server no longer has.
func (m *Model) DeletePod(uid types.UID) {
	p := m.pods[uid]
	if p == nil {
		return
	}
	m.version++
	delete(m.pods, uid)
	if p.Done {
		return
	}
	m.discharge(uid, p.Node, p.Resources)
	if p.Session != "" {
		m.withSession(p.Session, func(s *session) { s.pods-- })
	}
}

// SetAssignment adds or replaces an assignment.
func (m *Model) SetAssignment(a Assignment) {
	if known := m.assignments[a.UID]; known != nil && reflect.DeepEqual(known, &a) {
		return
	}
	m.DeleteAssignment(a.UID)
	m.version++
	m.withSession(a.Session, func(s *session) {
		m.assignments[a.UID] = &a
		s.assignments[a.UID] = true
	})
}

// DeleteAssignment forgets an assignment that the API server no longer has.
func (m *Model) DeleteAssignment(uid types.UID) {
	a := m.assignments[uid]
	if a == nil {
		return
	}
	m.version++
	m.withSession(a.Session, func(s *session) {
		delete(m.assignments, uid)
		delete(s.assignments, uid)
	})
}

// withSession changes what there is of a session: while it has a Pod, its
// assignments hold nothing besides.
func (m *Model) withSession(uid types.UID, change func(*session)) {
	s := m.sessions[uid]
	if s == nil {
		s = &session{assignments: map[types.UID]bool{}}
		m.sessions[uid] = s
	}
	m.eachHolding(s, func(a *Assignment) { m.discharge(a.UID, "", a.Resources) })
	change(s)
	m.eachHolding(s, func(a *Assignment) {
		m.charge(a.UID, a.Session, "", a.Resources, a.wishes())
	})
	if s.pods == 0 && len(s.assignments) == 0 {
		delete(m.sessions, uid)
	}
}

func (m *Model) eachHolding(s *session, do func(*Assignment)) {
	if s.pods > 0 {
		return
	}
	for uid := range s.assignments {
		if a := m.assignments[uid]; !a.Idle {
			do(a)
		}
	}
}

func (a *Assignment) wishes() wishes {
	return wishes{a.NodeSelector, a.Tolerations, a.RuntimeClass, a.Home, a.StorageClass}
}

func (m *Model) charge(owner, session types.UID, node string, r Resources, w wishes) {
	if node == "" {
		m.unbound[owner] = &claim{r.ofPod(), r.ofPod().demand(), w, session}
		return
	}
	m.use(node, r.ofPod(), 1)
}

func (m *Model) discharge(owner types.UID, node string, r Resources) {
	if node == "" {
		delete(m.unbound, owner)
		return
	}
	m.use(node, r.ofPod(), -1)
}

func (m *Model) use(name string, r Resources, sign int64) {
	used := m.used[name]
	if used == nil {
		used = Resources{}
		m.used[name] = used
	}
	used.add(r, sign)
	if len(used) == 0 {
		delete(m.used, name)
	}
	if n := m.nodes[name]; n != nil {
		n.free, n.rounded = nil, nil
	}
}

// SetStorageClasses replaces the storage classes.
func (m *Model) SetStorageClasses(c Classes) {
	m.storageClasses = c
	m.SetTemplates(m.requirements())
}

// SetIngressClasses replaces the ingress classes.
func (m *Model) SetIngressClasses(c Classes) {
	m.version++
	m.ingressClasses = c
}

// SetRuntimeClasses replaces the runtime classes, by name.
func (m *Model) SetRuntimeClasses(c map[string]RuntimeClass) {
	m.runtimeClasses = c
	m.SetTemplates(m.requirements())
}

// SetAdmittedNamespaces replaces the namespaces that are admitted, with whether each
// enforces Pod Security. Those that can't be admitted are left out.
func (m *Model) SetAdmittedNamespaces(enforces map[string]bool) {
	m.version++
	m.namespaces, m.notEnforced = nil, nil
	for _, name := range slices.Sorted(maps.Keys(enforces)) {
		if !m.restrictions.MayHoldSessions(name) {
			continue
		}
		m.namespaces = append(m.namespaces, name)
		if !enforces[name] {
			m.notEnforced = append(m.notEnforced, name)
		}
	}
}

// SetTemplates replaces the templates that are judged.
func (m *Model) SetTemplates(all []Requirements) {
	m.version++
	m.templates = nil
	for _, r := range all {
		m.templates = append(m.templates, m.newTemplate(r))
	}
	slices.SortFunc(m.templates, (*template).compare)
	for i, t := range m.templates {
		t.place = i
	}
	for _, n := range m.nodes {
		n.allowed = nil
	}
}

func (m *Model) requirements() []Requirements {
	var out []Requirements
	for _, t := range m.templates {
		out = append(out, t.Requirements)
	}
	return out
}

// left on a node, clean of what is reckoned for those not bound yet.
func (m *Model) left(n *node) Resources {
	if n.free == nil {
		n.free = maps.Clone(n.Allocatable)
		n.free.add(m.used[n.Name], -1)
	}
	return n.free
}
