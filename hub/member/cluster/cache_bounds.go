package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// Bounds limit what one agent can make the hub keep of its member.
type Bounds struct {
	// MaxItems of sessions that the hub placed in the member, or whose proof the
	// report bears, and MaxBytes of all items' texts.
	MaxItems, MaxBytes int
	// MaxOrphans are remembered: assignments of any other session. Of MaxVisible of
	// them, with MaxVisibleBytes, the whole report is kept.
	MaxOrphans, MaxVisible, MaxVisibleBytes int
}

// defaultBounds leave an honest report of each of 200,000 sessions some 1.3 KiB
// of texts; it has about half of that.
var defaultBounds = Bounds{
	MaxItems: protocol.MaxInventory, MaxBytes: 256 << 20,
	MaxOrphans: 10_000, MaxVisible: 1000, MaxVisibleBytes: 4 << 20,
}

// keeping is what becomes of a report.
type keeping int

const (
	// keepAll: its object is in the cache.
	keepAll keeping = iota
	// keepHash: it is an orphan beyond those that are shown. It counts in the
	// digests, so that both sides agree, and is not in the cache.
	keepHash
	// keepNothing: it is beyond the bounds, and the stream ends.
	keepNothing
)

// limits is what a member's cache knows of its own size. The cache's lock guards
// all of it but seen.
type limits struct {
	Bounds
	// knows reports whether the hub placed a session in the member, or the proof
	// says so. It takes the fleet's lock. nil: every session counts as known.
	knows func(session types.UID, epoch int64, proof string) bool
	// placed reports whether the hub placed a session in the member.
	placed func(session types.UID) bool

	// textBytes of all items.
	textBytes int
	// names of known sessions' assignments. A session has one: an agent can't
	// multiply what it was given by inventing names for it.
	names map[types.UID]types.NamespacedName
	// visible are the orphans in the cache, with their size, and visibleBytes its sum;
	// hidden are all others, with what they add to the digest of what is assigned.
	visible      map[types.NamespacedName]int
	visibleBytes int
	hidden       map[types.NamespacedName]uint64
	// excess is why the stream must end; nil: it need not.
	excess error
	// seen are the orphans of the last report, for people; read without the lock.
	seen atomic.Pointer[orphans]
}

// orphans are assignments in a member that the hub did not place there and that
// no proof speaks for. They are left alone.
type orphans struct {
	count int
	// some of them, namespace/name.
	some []string
}

// maxOrphanNames are named in a condition.
const maxOrphanNames = 3

func newLimits(knows func(session types.UID, epoch int64, proof string) bool, placed func(session types.UID) bool) limits {
	return limits{
		Bounds:  defaultBounds,
		knows:   knows,
		placed:  placed,
		names:   map[types.UID]types.NamespacedName{},
		visible: map[types.NamespacedName]int{},
		hidden:  map[types.NamespacedName]uint64{},
	}
}

// keep says what becomes of a report of an assignment, and makes space for it.
// The caller stores it.
func (p *Cache) keep(key types.NamespacedName, item *v1alpha1.SessionAssignment) keeping {
	switch {
	case p.excess != nil:
		return keepNothing
	case p.known(key, item):
		return p.keepKnown(key, item)
	}
	return p.keepOrphan(key, item)
}

// known reports whether the hub has a reason to keep a report: its session is known,
// under no other name.
func (p *Cache) known(key types.NamespacedName, item *v1alpha1.SessionAssignment) bool {
	session := item.Spec.Session.UID
	if name, named := p.names[session]; named {
		// Also where the session was taken from the member meanwhile: its end is
		// still to come.
		return name == key
	}
	return p.knows == nil || p.knows(session, item.Spec.Epoch, item.Spec.Proof)
}

// keepUnread is keep of a report of which no object is stored.
func (p *Cache) keepUnread(key types.NamespacedName, bare *v1alpha1.SessionAssignment) keeping {
	switch {
	case p.excess != nil:
		return keepNothing
	case p.items[key] != nil:
		return keepAll
	case p.known(key, bare):
		return p.keepKnown(key, bare)
	}
	return p.hide(key, bare)
}

func (p *Cache) keepKnown(key types.NamespacedName, item *v1alpha1.SessionAssignment) keeping {
	session := item.Spec.Session.UID
	old := p.items[key]
	_, named := p.names[session]
	switch {
	case !named && len(p.names) >= p.MaxItems:
		return p.exceeded("%d assignments of sessions that the hub placed there", p.MaxItems)
	case p.textBytes+sizeOf(item)-sizeOf(old) > p.MaxBytes:
		return p.exceeded("%d MiB of status", p.MaxBytes>>20)
	}
	p.forgetOrphan(key)
	p.names[session] = key
	return keepAll
}

func (p *Cache) keepOrphan(key types.NamespacedName, item *v1alpha1.SessionAssignment) keeping {
	was, isVisible := p.visible[key]
	size := sizeOf(item)
	switch {
	case p.ofKnown(key):
		// It would take the place of a session's own report.
		return p.hide(key, item)
	case isVisible && p.visibleBytes+size-was <= p.MaxVisibleBytes,
		!isVisible && len(p.visible) < p.MaxVisible && p.visibleBytes+size <= p.MaxVisibleBytes:
		p.forgetOrphan(key)
		p.visible[key], p.visibleBytes = size, p.visibleBytes+size
		return keepAll
	case isVisible:
		p.drop(key)
	}
	return p.hide(key, item)
}

// ofKnown reports whether what is shown under a name is a known session's.
func (p *Cache) ofKnown(key types.NamespacedName) bool {
	old := p.items[key]
	return old != nil && p.names[old.Spec.Session.UID] == key
}

func (p *Cache) hide(key types.NamespacedName, item *v1alpha1.SessionAssignment) keeping {
	if _, again := p.hidden[key]; !again && len(p.visible)+len(p.hidden) >= p.MaxOrphans {
		return p.exceeded("%d assignments that the hub did not place there", p.MaxOrphans)
	}
	hash := assignedHash(item)
	p.assigned += hash - p.hidden[key]
	p.hidden[key] = hash
	return keepHash
}

// excessRemedy is what an operator does about an agent that reports too much.
const excessRemedy = "list what it holds with kubectl get sessionassignments -A in the member, and delete what no session of the hub needs; " +
	"if it holds less, the agent is not to be trusted: revoke it (spec.access)"

// exceeded is why a stream ends whose agent reports too much.
func exceeded(format string, args ...any) error {
	return fmt.Errorf("%w: it reports more than "+format+"; "+excessRemedy, append([]any{protocol.ErrExcess}, args...)...)
}

func (p *Cache) exceeded(format string, args ...any) keeping {
	p.excess = exceeded(format, args...)
	return keepNothing
}

// forgetOrphan takes a name off the orphans.
func (p *Cache) forgetOrphan(key types.NamespacedName) {
	p.visibleBytes -= p.visible[key]
	delete(p.visible, key)
	p.assigned -= p.hidden[key]
	delete(p.hidden, key)
}

// forgetUnreported drops what is known of names that are neither in the cache nor
// reported any more.
func (p *Cache) forgetUnreported() {
	for key := range p.hidden {
		if _, reported := p.reported.Has(key); !reported {
			p.forgetOrphan(key)
		}
	}
	for session, key := range p.names {
		if _, reported := p.reported.Has(key); !reported && p.items[key] == nil {
			delete(p.names, session)
		}
	}
}

// recount keeps the size right when an item takes the place of another; either
// may be nil.
func (p *Cache) recount(key types.NamespacedName, old, next *v1alpha1.SessionAssignment) {
	p.textBytes += sizeOf(next) - sizeOf(old)
	if was, shown := p.visible[key]; shown {
		if next == nil {
			p.forgetOrphan(key)
		} else {
			p.visible[key] = sizeOf(next)
			p.visibleBytes += sizeOf(next) - was
		}
	}
	if old != nil && p.names[old.Spec.Session.UID] == key && (next == nil || next.Spec.Session.UID != old.Spec.Session.UID) {
		delete(p.names, old.Spec.Session.UID)
	}
}

// TakeExcess returns why the stream must end, once, and notes the orphans for
// people.
func (p *Cache) TakeExcess() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteOrphans()
	err := p.excess
	p.excess = nil
	return err
}

// noteOrphans replaces the snapshot if their number has changed.
func (p *Cache) noteOrphans() {
	now := &orphans{count: len(p.visible) + len(p.hidden)}
	if before := p.seen.Load(); before != nil && before.count == now.count {
		return
	}
	for key := range p.visible {
		if len(now.some) < maxOrphanNames {
			now.some = append(now.some, key.String())
		}
	}
	slices.Sort(now.some)
	p.seen.Store(now)
}

// Orphans describes those of the last report in a condition; empty: there are none.
// It takes no lock.
func (p *Cache) Orphans() string {
	o := p.seen.Load()
	if o == nil || o.count == 0 {
		return ""
	}
	text := fmt.Sprintf("%d assignments there are orphans, which the hub did not place and leaves alone", o.count)
	if len(o.some) > 0 {
		text += ", such as " + strings.Join(o.some, ", ")
	}
	return text + ": delete those that nobody needs in the member, with kubectl delete sessionassignment"
}

// itemOverhead is what an entry of a list costs besides its texts.
const itemOverhead = 64

// sizeOf is how many bytes of texts an item has; what every item costs besides
// is bounded by their number.
func sizeOf(item *v1alpha1.SessionAssignment) int {
	if item == nil {
		return 0
	}
	s := &item.Status
	n := len(item.Namespace) + len(item.Name) + len(item.Spec.Session.UID) + len(item.Spec.Session.Namespace) +
		len(item.Spec.Session.Name) + len(item.Spec.Proof) + len(s.State) + len(s.Reason) + len(s.Message) + len(s.NodeName)
	for key, value := range item.Annotations {
		n += len(key) + len(value)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		n += itemOverhead + len(c.Type) + len(c.Reason) + len(c.Message)
	}
	for _, name := range s.MissingSecrets {
		n += itemOverhead + len(name)
	}
	if s.Failure != nil {
		n += itemOverhead + len(s.Failure.Reason) + len(s.Failure.Message)
	}
	if s.Config != nil {
		n += itemOverhead + len(s.Config.Name) + len(s.Config.Hash)
	}
	return n
}
