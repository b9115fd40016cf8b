package capacity

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Assignments is the manager's cache of SessionAssignments.
type Assignments interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Options of a Watcher.
type Options struct {
	// Client of the member's API server.
	Client kubernetes.Interface
	// Objects reads the objects of Karpenter, if the member has such node groups.
	Objects dynamic.Interface
	// Assignments is the manager's cache.
	Assignments Assignments
	// Restrictions of the member's administrator.
	Restrictions restriction.Settings
	// OnChange is called after each new report, from the watcher's own goroutine. It
	// should not block.
	OnChange func()
	// Debounce is how long changes are collected before they are reported, by default
	// 250 ms.
	Debounce time.Duration
	// Recheck is how often assumed assignments are compared with the cache, and objects of node
	// groups that can't be read are tried again, by default 30 s.
	Recheck time.Duration
	// GroupTimes are how long a node group may add no node, and GroupInterval is how often that is
	// checked, by default 2 s: a session whose node does not come is moved only once that was found twice.
	GroupTimes    nodegroup.Times
	GroupInterval time.Duration
}

// Watcher keeps a Model up to date and numbers its reports.
type Watcher struct {
	options Options
	changed chan struct{}

	mu    sync.Mutex
	model *Model
	// templates are those that the hub sent last, with the node groups.
	templates *fleetv1.TemplateSet
	// synced is set once all informers have synced. Nothing is reported before.
	synced bool
	// report is the last one, and reported the version of the model that it shows.
	report   *fleetv1.CapacityReport
	reported uint64
	// sequence is its number, and notified the one for which OnChange was last called.
	sequence, notified uint64
	// required is the highest number that was returned: that report must follow, even if
	// nothing has changed.
	required uint64
	// notEnforced are the namespaces that were last logged.
	notEnforced []string
	// growthChanges has the assignments whose Pods depend on other nodes than before.
	growthChanges chan event.GenericEvent
	// bufferChanges receives a value when what the buffers depend on may have changed.
	bufferChanges chan struct{}
	// assumed are stored assignments that the cache does not show yet.
	assumed map[types.UID]*assumed
}

// assumed is a stored assignment that the cache does not show yet.
type assumed struct {
	key        types.NamespacedName
	generation int64
	// checked is set by the first recheck.
	checked bool
}

// maxGrowthChanges is how many changes of dependences are queued, before reports wait for the reconciler to read
// them.
const maxGrowthChanges = 1024

// NewWatcher returns a Watcher that Start runs.
func NewWatcher(o Options) *Watcher {
	o.Debounce = cmp.Or(o.Debounce, 250*time.Millisecond)
	o.Recheck = cmp.Or(o.Recheck, 30*time.Second)
	o.GroupInterval = cmp.Or(o.GroupInterval, 2*time.Second)
	model := NewModel(o.Restrictions)
	model.groupTimes = o.GroupTimes
	return &Watcher{
		options: o, changed: make(chan struct{}, 1), growthChanges: make(chan event.GenericEvent, maxGrowthChanges),
		bufferChanges: make(chan struct{}, 1),
		model:         model, assumed: map[types.UID]*assumed{},
	}
}

// NeedLeaderElection returns true: only the leader reports.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Report returns the newest report, and nil before the first. It must not be changed. It
// counts every assignment that Stored was called for: the hub must not receive an inventory
// with an assignment and then a report without it.
func (w *Watcher) Report() *fleetv1.CapacityReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.required > w.sequence {
		w.build()
	}
	return w.report
}

// SetTemplates replaces the reported templates, the node groups and the buffers. The hub sends a member with any of the
// latter the same ones with each connection: these change nothing, and what is cached of nodes and templates is kept.
func (w *Watcher) SetTemplates(set *fleetv1.TemplateSet) {
	if !w.replaceTemplates(set) {
		return
	}
	groups, err := specsOf(set)
	if err != nil {
		log.Log.WithName("capacity").Error(err, "Node groups that the hub has sent are ignored")
	}
	buffers, err := convert.CheckedBuffers(set.GetBuffers())
	if err != nil {
		log.Log.WithName("capacity").Error(err, "Buffers that the hub has sent are ignored")
	}
	w.update(func(m *Model) {
		m.Elapsed(time.Now())
		m.SetNodeGroups(groups)
		setBuffers(m, buffers)
		m.SetTemplates(set.GetTemplates())
	})
}

// replaceTemplates records what the hub has sent, and returns false if it is the same as before.
func (w *Watcher) replaceTemplates(set *fleetv1.TemplateSet) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.templates != nil && proto.Equal(w.templates, set) {
		return false
	}
	w.templates = set
	return true
}

// Stored counts an assignment that the API server has just stored, and returns the number
// of the first report that counts it, which follows even if nothing has changed.
func (w *Watcher) Stored(a *v1alpha1.SessionAssignment) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.assumed[a.UID] = &assumed{key: client.ObjectKeyFromObject(a), generation: a.Generation}
	w.model.SetAssignment(AssignmentOf(a))
	return w.requireReport()
}

// Node returns the state of a node.
func (w *Watcher) Node(name string) observe.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.model.Node(name)
}

// Growth returns what a Pod without a node depends on in the node groups.
func (w *Watcher) Growth(pod types.UID) observe.Growth {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.model.pending.views[pod]
}

// GrowthChanges receives an event with the key of an assignment when what its Pod depends on changes.
func (w *Watcher) GrowthChanges() <-chan event.GenericEvent { return w.growthChanges }

// announce sends the changes of what Pods depend on.
func (w *Watcher) announce(ctx context.Context) {
	w.mu.Lock()
	changed := w.model.pending.take()
	w.mu.Unlock()
	for _, key := range changed {
		a := &v1alpha1.SessionAssignment{}
		a.Namespace, a.Name = key.Namespace, key.Name
		select {
		case w.growthChanges <- event.GenericEvent{Object: a}:
		case <-ctx.Done():
		}
	}
}

// NextSequence returns the number of the next report, which counts all assignments in the
// cache, and those that Stored was called for.
func (w *Watcher) NextSequence() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requireReport()
}

func (w *Watcher) requireReport() uint64 {
	w.required = w.sequence + 1
	w.signal()
	return w.required
}

func (w *Watcher) update(change func(*Model)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.model)
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// publish builds a report if something has changed, and returns whether OnChange is to be
// called.
func (w *Watcher) publish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.build()
	notified := w.notified == w.sequence
	w.notified = w.sequence
	return !notified
}

// build builds the next report, unless it would be the same and none is required.
func (w *Watcher) build() {
	if !w.synced {
		return
	}
	w.model.Elapsed(time.Now())
	required := w.report == nil || w.required > w.sequence
	if !required && w.reported == w.model.version {
		return
	}
	report := w.model.Report()
	report.Sequence, w.reported = w.sequence, w.model.version
	if !required && proto.Equal(report, w.report) {
		return
	}
	w.sequence++
	report.Sequence, w.report = w.sequence, report
}

// Start watches the member until the context ends. The first report follows once all
// informers have synced.
func (w *Watcher) Start(ctx context.Context) error {
	assignments, err := w.options.Assignments.GetInformer(ctx, &v1alpha1.SessionAssignment{})
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	registration, err := assignments.AddEventHandler(w.assignmentHandler())
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	defer func() { _ = assignments.RemoveEventHandler(registration) }()
	synced, stop, err := w.watchMember(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if !toolscache.WaitForCacheSync(ctx.Done(), append(synced, registration.HasSynced)...) {
		return nil
	}
	w.update(func(*Model) { w.synced = true })
	groupMetrics.watcher.Store(w)
	defer groupMetrics.watcher.CompareAndSwap(w, nil)
	w.loop(ctx)
	return nil
}

// loop publishes changes Debounce after the first of them, so that a burst of a thousand
// makes a few reports. Node groups also change with time: only while there are any, a ticker runs.
func (w *Watcher) loop(ctx context.Context) {
	recheck := time.NewTicker(w.options.Recheck)
	defer recheck.Stop()
	sources := groupSources(w)
	defer stopGroups(sources)
	events := eventReader{client: w.options.Client}
	defer events.stop()
	var elapsed <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-recheck.C:
			w.recheck(ctx)
			continue
		case <-elapsed:
		case <-w.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.options.Debounce):
		}
		if elapsed = nil; followGroups(ctx, w, sources) {
			elapsed = time.After(w.options.GroupInterval)
			events.read(ctx, w)
		}
		if w.publish() {
			w.options.OnChange()
		}
		w.announce(ctx)
		announceBuffers(w)
	}
}
