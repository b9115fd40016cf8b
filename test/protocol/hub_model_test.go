package protocol

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// hub is a model of the hub as the link sees it: its desired state is durable, its cache
// of the member is not.
type hub struct {
	term   int64
	tuning protocol.Tuning
	// protocol that a synthetic next hub sends in its Welcome, 0 for the
	// negotiated one.
	protocol int32
	conn     *protocol.Conn
	// cache of the member, by session; ledger is what its agent reported, altered
	// the sessions of which the cache shows something else; ended is the epoch up to
	// which a session has stopped.
	cache   map[string]item
	ledger  convert.Ledger[string]
	altered map[string]bool
	ended   map[string]int64
	// serving is true once the inventory of this stream has been applied.
	serving   bool
	agreement protocol.Agreement
	resyncs   map[string]int
	// stale counts the dropped messages of earlier streams.
	stale int
	// wanted is the epoch and spec with which each session is placed, releasing
	// the epoch up to which it must stop. Both outlive the process.
	wanted    map[string]item
	releasing map[string]int64
	epochs    map[string]int64
	// resync makes the hub send, after an inventory, the orders that the cache lacks.
	resync bool
}

type item struct {
	epoch int64
	hash  string
	state string
}

func newHub() *hub {
	h := &hub{
		term: 1, tuning: protocol.Tuning{AckTimeout: 10 * time.Second},
		wanted: map[string]item{}, releasing: map[string]int64{}, epochs: map[string]int64{},
	}
	h.forgetAll()
	return h
}

// forgetAll clears the state that a new process does not have.
func (h *hub) forgetAll() {
	h.cache, h.altered, h.ended = map[string]item{}, map[string]bool{}, map[string]int64{}
	h.ledger.Clear()
	h.agreement, h.resyncs = "", map[string]int{}
}

// loses damages the hub's cache: it loses a session.
func (h *hub) loses(uid string) {
	delete(h.cache, uid)
	delete(h.altered, uid)
	h.ledger.Delete(uid)
}

// apply does what hub/member does. It ignores messages of a stream that is no longer
// the member's (G2).
func (h *hub) apply(conn *protocol.Conn, e protocol.Effect) {
	if conn != h.conn {
		h.stale++
		return
	}
	switch {
	case e.Admit != nil:
		h.serving = false
		h.conn.Admitted(durationpb.New(5*time.Second), "", 0)
	case e.Digest != nil:
		buckets := h.differing(e.Digest)
		h.conn.Request(buckets)
		if buckets.Len() == 0 {
			h.part(protocol.Part{})
		}
	case e.Part != nil:
		h.part(*e.Part)
	case e.Sequence != 0:
		h.applyReports(e.Changes)
		h.conn.Applied(e, h.ledger.Digest().Sum())
	}
	for _, r := range e.Results {
		h.result(r)
	}
}

func (h *hub) begin(p protocol.Part) {
	h.conn.Applied(protocol.Effect{Part: &p}, h.ledger.Digest().Sum())
	h.serving = true
	if h.resync {
		h.putAll()
	}
}

func (h *hub) differing(theirs *convert.Digest) convert.BucketSet {
	differ := h.ledger.Digest().Differing(theirs)
	for uid := range h.cache {
		if _, reported := h.ledger.Has(uid); !reported {
			differ.Add(convert.BucketOf(uid))
		}
	}
	for uid := range h.altered {
		differ.Add(convert.BucketOf(uid))
	}
	return differ
}

func (h *hub) part(p protocol.Part) {
	h.ledger.DeleteBuckets(p.Buckets)
	for uid := range h.cache {
		if p.Buckets.Has(convert.BucketOf(uid)) {
			delete(h.cache, uid)
		}
	}
	for uid := range h.altered {
		if p.Buckets.Has(convert.BucketOf(uid)) {
			delete(h.altered, uid)
		}
	}
	if !h.serving {
		// What the member holds at the start of a stream is not a late report.
		for _, r := range p.Items {
			delete(h.ended, string(r.Spec.Session.UID))
		}
	}
	h.applyReports(p.Items)
	h.begin(p)
}

func (h *hub) applyReports(reports []protocol.Report) {
	for _, r := range reports {
		uid := string(r.Spec.Session.UID)
		delete(h.altered, uid)
		if r.Gone {
			h.ledger.Delete(uid)
			continue
		}
		h.ledger.Set(uid, convert.BucketOf(uid), r.Hash)
		if !h.show(r.SessionAssignment) {
			h.altered[uid] = true
		}
	}
}

// show adds an assignment to the cache and reports whether it did: not if the cache has
// a newer epoch, or this one has ended (G2).
func (h *hub) show(a *v1alpha1.SessionAssignment) bool {
	uid := string(a.Spec.Session.UID)
	if a.Spec.Epoch < h.cache[uid].epoch || a.Spec.Epoch <= h.ended[uid] {
		return false
	}
	h.cache[uid] = itemOf(a)
	return true
}

func (h *hub) sums() (sums protocol.Sums) {
	sums.Reported = h.ledger.Digest().Sum()
	for uid, i := range h.cache {
		sums.Assigned += convert.AssignedHash(uid, i.epoch, i.hash)
	}
	return sums
}

// putAll sends the missing orders, as the reconcilers do after a reconnect.
func (h *hub) putAll() {
	for _, uid := range sorted(h.releasing) {
		h.put(withdrawal(uid, h.releasing[uid]))
	}
	for _, uid := range sorted(h.wanted) {
		want, has := h.wanted[uid], h.cache[uid]
		if has.epoch != want.epoch || has.hash != want.hash {
			h.put(assignment(uid, want.epoch, want.hash))
		}
	}
}

func (h *hub) put(order protocol.Order) {
	if h.conn != nil {
		h.conn.Put(order)
	}
}

// result follows hub/member: Stopped ends a release, and a placed session that is
// stopped or refused is rescheduled with the next epoch.
func (h *hub) result(r protocol.Result) {
	uid := string(r.SessionUID)
	want, placed := h.wanted[uid]
	if _, reported := h.ledger.Has(uid); reported {
		h.altered[uid] = true
	}
	switch r.Code {
	case protocol.Stored:
		if has := h.cache[uid]; r.SpecHash != "" && has.epoch <= r.Epoch && r.Epoch > h.ended[uid] {
			if has.epoch < r.Epoch {
				has.state = "Active"
			}
			h.cache[uid] = item{epoch: r.Epoch, hash: r.SpecHash, state: has.state}
		}
		return
	case protocol.Stopped:
		h.ended[uid] = max(h.ended[uid], r.Epoch)
		if h.cache[uid].epoch <= r.Epoch {
			delete(h.cache, uid)
		}
		if h.releasing[uid] <= r.Epoch {
			delete(h.releasing, uid)
		}
	case protocol.Refused:
	}
	if h.resync && placed && want.epoch <= r.Epoch {
		h.place(uid, want.hash)
	}
}

// place places a session with the next epoch.
func (h *hub) place(uid, hash string) {
	h.epochs[uid]++
	h.wanted[uid] = item{epoch: h.epochs[uid], hash: hash}
	h.put(assignment(uid, h.epochs[uid], hash))
}

// release ends a placement and orders the member to stop it.
func (h *hub) release(uid string) {
	want, ok := h.wanted[uid]
	if !ok {
		return
	}
	delete(h.wanted, uid)
	h.releasing[uid] = max(h.releasing[uid], want.epoch)
	h.put(withdrawal(uid, want.epoch))
}
