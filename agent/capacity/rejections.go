package capacity

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
)

// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=events,verbs=list

const (
	// eventsAfter is how long kube-scheduler must have found no node for a Pod before its events are read: autoscalers
	// decide in rounds of some seconds. eventsAgain is how soon those of a Pod of the same class are read again.
	eventsAfter = 10 * time.Second
	eventsAgain = 30 * time.Second
	// maxEventReads is how many Pods' events are read at once: the API server reads all events of a namespace for
	// each. Those of the others follow with the next round.
	maxEventReads = 8
	// maxEvents is how many events of a Pod are read.
	maxEvents = 200
)

// classInGroup is the Pods of a class that depend on nodes which a group may add.
type classInGroup struct {
	nodegroup.Class
	group string
}

// eventQuery is a Pod whose events are to be read: no node is being added for it, so the autoscaler may have
// rejected it.
type eventQuery struct {
	uid types.UID
	key types.NamespacedName
	// since is when kube-scheduler found no node for it.
	created, since time.Time
	classInGroup
}

// eventQueries returns the Pods whose events are to be read now, and records that they are.
func eventQueries(m *Model) (out []eventQuery) {
	g := m.growth
	if g == nil {
		return nil
	}
	queried := map[classInGroup]time.Time{}
	for c, q := range oldestRejectable(m) {
		last, before := g.queried[c]
		if before {
			queried[c] = last
		}
		if m.now.Sub(q.since) >= eventsAfter && (!before || m.now.Sub(last) >= eventsAgain) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b eventQuery) int {
		return cmp.Or(queried[a.classInGroup].Compare(queried[b.classInGroup]), a.since.Compare(b.since), cmp.Compare(a.uid, b.uid))
	})
	out = out[:min(len(out), maxEventReads)]
	for _, q := range out {
		queried[q.classInGroup] = m.now
	}
	g.queried = queried
	return out
}

// oldestRejectable returns one Pod of each class and group, for which kube-scheduler has found no node for the longest
// time, among those that depend on nodes which the group may add or have a veto: this lasts longer if they are still
// rejected.
func oldestRejectable(m *Model) map[classInGroup]eventQuery {
	g := m.growth
	vetoed := map[classInGroup]bool{}
	for i := range g.states {
		for class := range g.states[i].Vetoes {
			vetoed[classInGroup{class, g.states[i].Name}] = true
		}
	}
	out := map[classInGroup]eventQuery{}
	for uid, d := range g.depends {
		of := classInGroup{d.class, d.group}
		rejectable := d.kind == onGrowable || d.kind == onFailure && vetoed[of]
		if !rejectable || d.class == (nodegroup.Class{}) || !isUnschedulable(m, uid) {
			continue
		}
		at := m.pods[uid].Times
		known, ok := out[of]
		if !ok || cmp.Or(at.Unschedulable.Compare(known.since), cmp.Compare(uid, known.uid)) < 0 {
			out[of] = eventQuery{uid, at.Key, at.Created, at.Unschedulable, of}
		}
	}
	return out
}

// reject records the rejections of a class of Pods.
func reject(m *Model, class nodegroup.Class, all []nodegroup.Rejection) {
	m.withGroups(func(g *growth) (changed bool) {
		for _, r := range all {
			changed = g.Reject(class, r, m.now) || changed
		}
		return changed
	})
}

// eventReader reads the events of Pods that depend on nodes which no autoscaler is adding: an autoscaler that adds
// none for a Pod states so in an event of it.
type eventReader struct {
	client kubernetes.Interface
	busy   atomic.Bool
	// wait waits for the last round, nil before the first.
	wait func() error
	// failure is the last one that was logged.
	failure string
}

// read begins a round, unless one is running or there is nothing to read.
func (r *eventReader) read(ctx context.Context, w *Watcher) {
	if r.busy.Load() {
		return
	}
	w.mu.Lock()
	pods := eventQueries(w.model)
	w.mu.Unlock()
	if len(pods) == 0 {
		return
	}
	r.stop()
	r.busy.Store(true)
	r.wait = concurrent.Begin(func() error {
		defer r.busy.Store(false)
		for _, p := range pods {
			r.readPod(ctx, w, p)
		}
		return nil
	})
}

// stop waits for the last round.
func (r *eventReader) stop() {
	if r.wait == nil {
		return
	}
	if err := r.wait(); err != nil {
		log.Log.WithName("capacity").Error(err, "Reading the events of Pods")
	}
	r.wait = nil
}

// readPod reads the events of a Pod. If they can't be read, the autoscaler may still be found to do nothing.
func (r *eventReader) readPod(ctx context.Context, w *Watcher, p eventQuery) {
	found, err := listEvents(ctx, r.client, p)
	if err != nil {
		if text := err.Error(); ctx.Err() == nil && text != r.failure {
			r.failure = text
			log.Log.WithName("capacity").Error(err, "The events of Pods without a node can't be read: a Pod that the autoscaler rejects waits for a node",
				"namespace", p.key.Namespace)
		}
		return
	}
	r.failure = ""
	if rejections := nodegroup.RejectionsOf(p.uid, found); len(rejections) > 0 {
		for i := range rejections {
			rejections[i].Created = p.created
		}
		w.update(func(m *Model) { reject(m, p.Class, rejections) })
	}
}

func listEvents(ctx context.Context, client kubernetes.Interface, p eventQuery) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	list, err := client.CoreV1().Events(p.key.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(p.uid)).String(), Limit: maxEvents,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
