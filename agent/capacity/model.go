package capacity

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Model has the member's capacity and its use. It is not safe for concurrent use.
type Model struct {
	nodes       map[string]*node
	pods        map[types.UID]*Pod
	assignments map[types.UID]*Assignment
	// required are the templates as the hub sent them, and templates the same prepared.
	required  []*fleetv1.TemplateRequirements
	templates []*template

	memberClasses
	namespaces []string
	// notEnforced are the namespaces that do not enforce Pod Security.
	notEnforced []string
	// restrictions of the member's administrator.
	restrictions restriction.Settings

	// used on each node by bound Pods; also on nodes that the model does not have (any more).
	used map[string]Resources
	// sessions by UID.
	sessions map[types.UID]*session
	// unbound are Pods without a node, and assignments without a Pod, by UID.
	unbound map[types.UID]*unboundPod
	// growth has the node groups, nil if there are none: then nothing of them costs anything. now is
	// the time of the next report, and groupTimes are for the groups.
	growth     *growth
	now        time.Time
	groupTimes nodegroup.Times
	// pending has what the sessions' unbound Pods depend on.
	pending pendingPods
	buffers buffers
	// version increases with every change that may affect a report.
	version uint64
}

// Pod is the part of a Pod that the model needs.
type Pod struct {
	UID types.UID
	// Session of a desktop; empty for other Pods.
	Session types.UID
	// Node that it is bound to; empty if unbound.
	Node      string
	Resources Resources
	// PodSpec is used until it is bound. It has no runtime class, whose requirements
	// Kubernetes writes into a Pod, and no home.
	PodSpec
	// Done is set once it has succeeded or failed, or if it only keeps a slot free: it uses nothing.
	Done bool
	// Buffer is the template of the agent's buffer that it belongs to; empty for others.
	Buffer string
	// Daemon is set if it is a DaemonSet's.
	Daemon bool
	// Times are for node groups alone. A Pod that is bound has them if it is a desktop.
	Times *PodTimes
}

// PodTimes is how a Pod was or is to be bound.
type PodTimes struct {
	// Key is its namespace and name, the latter that of a desktop's assignment.
	Key types.NamespacedName
	// Created, Unschedulable and Bound are when it was created, kube-scheduler found no node for it,
	// and it was bound. The last two are zero if that is not so.
	Created, Unschedulable, Bound time.Time
	// Node is the only one that it may be bound to, for a Pod of a DaemonSet.
	Node string
}

// usesLike reports whether two states of a Pod differ at most in their times.
func (p *Pod) usesLike(o *Pod) bool {
	a, b := *p, *o
	a.Times, b.Times = nil, nil
	return reflect.DeepEqual(a, b)
}

// Assignment is the part of a stored SessionAssignment that the model needs.
type Assignment struct {
	// UID of the SessionAssignment, not of the session.
	UID     types.UID
	Session types.UID
	// Template and Revision of the session.
	Template, Revision string
	// Resources and PodSpec of the Pod that will be created for it.
	Resources Resources
	PodSpec
	// Idle is set if it is suspended, failed, out of time or stopping, so that no Pod
	// will be created for it.
	Idle bool
	// MayAddNode is set if it may be placed where a node must be added first. It matters before it
	// is stored, and is not stored.
	MayAddNode bool
}

// Classes are the names of storage or ingress classes, and whether one of them is the
// default.
type Classes struct {
	Names   map[string]bool
	Default bool
	// Topologies in which a storage class provisions volumes, by its name; the default
	// class also has the empty name. Other classes provision anywhere.
	Topologies map[string][]corev1.TopologySelectorTerm
}

// memberClasses are the classes of the member.
type memberClasses struct {
	storageClasses, ingressClasses Classes
	runtimeClasses                 map[string]RuntimeClass
	priorityClasses                sets.Set[string]
}

// RuntimeClass is what a runtime class requires of nodes.
type RuntimeClass struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Overhead of each Pod besides the requests of its containers.
	Overhead Resources
}

// node is a node with cached results.
type node struct {
	Node
	// free and rounded are nil after a change of allocatable or used.
	free    Resources
	rounded *vector
	// allowed caches which templates may use it, by template.index.
	allowed []permission
}

// session is the assignments and Pods of a session in the member.
type session struct {
	assignments map[types.UID]*Assignment
	pods        int // that use capacity
}

// unboundPod is capacity that will be used on some node.
type unboundPod struct {
	resources Resources
	PodSpec
	// session of a desktop; empty for other Pods.
	session types.UID
	// keyed is the last result of keyIn.
	keyed *keyedPod
}

// NewModel returns an empty model of a member whose administrator has set restrictions.
func NewModel(restrictions restriction.Settings) *Model {
	return &Model{
		restrictions: restrictions,
		nodes:        map[string]*node{},
		pods:         map[types.UID]*Pod{},
		assignments:  map[types.UID]*Assignment{},
		used:         map[string]Resources{},
		sessions:     map[types.UID]*session{},
		unbound:      map[types.UID]*unboundPod{},
	}
}

// SetNode adds or replaces a node. Most events of nodes and Pods change nothing that the
// model needs: heartbeats, readiness, other owners' annotations.
func (m *Model) SetNode(n Node) {
	if known := m.nodes[n.Name]; known != nil && reflect.DeepEqual(&known.Node, &n) {
		return
	}
	m.version++
	m.nodes[n.Name] = &node{Node: n}
	if m.growth != nil {
		m.growth.SetNode(n.ofGroup())
	}
}

// DeleteNode removes a node, and keeps the Pods that are bound to it.
func (m *Model) DeleteNode(name string) {
	m.version++
	delete(m.nodes, name)
	if m.growth != nil {
		m.growth.DeleteNode(name)
	}
}

// Node returns the state of a node.
func (m *Model) Node(name string) observe.Node {
	if n := m.nodes[name]; n != nil {
		return n.State
	}
	return observe.Node{}
}

// SetPod adds or replaces a Pod.
func (m *Model) SetPod(p Pod) {
	known := m.pods[p.UID]
	if known != nil {
		if reflect.DeepEqual(known, &p) {
			return
		}
		if m.growth == nil && known.Times != p.Times && known.usesLike(&p) {
			m.pods[p.UID] = &p
			return
		}
	}
	m.DeletePod(p.UID)
	m.version++
	m.pods[p.UID] = &p
	m.buffers.count(&p, 1)
	if p.Done {
		return
	}
	m.growth.addDaemon(&p, 1)
	m.growth.addBound(known, &p)
	m.charge(p.UID, p.Session, p.Node, p.Resources, p.PodSpec)
	if p.Session != "" {
		m.withSession(p.Session, func(s *session) { s.pods++ })
	}
}

// DeletePod removes a Pod that the API server no longer has.
func (m *Model) DeletePod(uid types.UID) {
	p := m.pods[uid]
	if p == nil {
		return
	}
	m.version++
	delete(m.pods, uid)
	m.buffers.count(p, -1)
	if p.Done {
		return
	}
	m.growth.addDaemon(p, -1)
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
		s.assignments[a.UID] = &a
	})
}

// DeleteAssignment removes an assignment that the API server no longer has.
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

// withSession changes a session. While it has a Pod, its assignments use no capacity.
func (m *Model) withSession(uid types.UID, change func(*session)) {
	s := m.sessions[uid]
	if s == nil {
		s = &session{assignments: map[types.UID]*Assignment{}}
		m.sessions[uid] = s
	}
	s.eachUsing(func(a *Assignment) { m.discharge(a.UID, "", a.Resources) })
	change(s)
	s.eachUsing(func(a *Assignment) { m.charge(a.UID, a.Session, "", a.Resources, a.PodSpec) })
	if s.pods == 0 && len(s.assignments) == 0 {
		delete(m.sessions, uid)
	}
}

// eachUsing calls do for each assignment that uses capacity.
func (s *session) eachUsing(do func(*Assignment)) {
	if s.pods > 0 {
		return
	}
	for _, a := range s.assignments {
		if !a.Idle {
			do(a)
		}
	}
}

func (m *Model) charge(owner, session types.UID, node string, r Resources, spec PodSpec) {
	if node == "" {
		m.unbound[owner] = &unboundPod{resources: r.ofPod(), PodSpec: spec, session: session}
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
	m.SetTemplates(m.required)
}

// SetIngressClasses replaces the ingress classes.
func (m *Model) SetIngressClasses(c Classes) {
	m.version++
	m.ingressClasses = c
}

// SetRuntimeClasses replaces the runtime classes, by name.
func (m *Model) SetRuntimeClasses(c map[string]RuntimeClass) {
	m.runtimeClasses = c
	m.SetTemplates(m.required)
}

// SetPriorityClasses replaces the names of the priority classes.
func (m *Model) SetPriorityClasses(names sets.Set[string]) {
	m.version++
	m.priorityClasses = names
}

// SetAdmittedNamespaces replaces the namespaces that are admitted, with whether each
// enforces Pod Security. Those that can't be admitted are skipped.
func (m *Model) SetAdmittedNamespaces(enforces map[string]bool) {
	m.version++
	m.namespaces, m.notEnforced = nil, nil
	for _, name := range slices.Sorted(maps.Keys(enforces)) {
		if !m.restrictions.CanBeAdmitted(name) {
			continue
		}
		m.namespaces = append(m.namespaces, name)
		if !enforces[name] {
			m.notEnforced = append(m.notEnforced, name)
		}
	}
}

// SetTemplates replaces the reported templates. One that can't be read is reported as
// unavailable.
func (m *Model) SetTemplates(all []*fleetv1.TemplateRequirements) {
	m.version++
	m.required, m.templates = all, nil
	for _, r := range all {
		m.templates = append(m.templates, newTemplate(m, r))
	}
	slices.SortFunc(m.templates, func(a, b *template) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Revision, b.Revision))
	})
	for i, t := range m.templates {
		t.index = i
	}
	for _, n := range m.nodes {
		n.allowed = nil
	}
}
