package protocol

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	hublink "github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if agentDir != "" {
		_ = os.RemoveAll(agentDir)
	}
	os.Exit(code)
}

// directory is a hub with some members, whose reports it keeps.
type directory struct {
	mu      sync.Mutex
	members map[types.UID]*record
}

// record is what the hub has of one member, over all its connections.
type record struct {
	mu          sync.Mutex
	peer        hublink.Peer // nil without a connection
	whole       bool         // its inventory is complete
	hello       *fleetv1.Hello
	inventories int
	cache       map[types.UID]item
	reported    map[string]*v1alpha1.SessionAssignment
	results     []protocol.Result
	capacity    []*fleetv1.CapacityReport
	renewals    int
	uncertain   bool // by the last renewal
	ledger      convert.Ledger[string]
	parts       []convert.BucketSet
	agreements  []protocol.Agreement
	closed      []error
	panics      bool
}

func newDirectory(members ...types.UID) *directory {
	d := &directory{members: map[types.UID]*record{}}
	for _, uid := range members {
		d.members[uid] = &record{cache: map[types.UID]item{}, reported: map[string]*v1alpha1.SessionAssignment{}}
	}
	return d
}

func (d *directory) of(uid types.UID) *record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.members[uid]
}

func (d *directory) Open(_ context.Context, uid types.UID, hello *fleetv1.Hello, peer hublink.Peer) (hublink.Member, error) {
	r := d.of(uid)
	if r == nil {
		return nil, hublink.ErrUnknownMember
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peer != nil && r.hello.Instance != hello.Instance {
		return nil, hublink.ErrAlreadyConnected
	}
	if r.peer != nil {
		r.peer.Close(errors.New("replaced"))
	}
	r.peer, r.hello, r.whole = peer, hello, false
	return &link{record: r, peer: peer}, nil
}

// link is a member as one connection sees it.
type link struct {
	*record
	peer hublink.Peer
}

func (l *link) Closed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = append(l.closed, err)
	if l.record.peer == l.peer {
		l.record.peer = nil
	}
}

func (d *directory) Renew(uid types.UID, renewal hublink.Renewal) (time.Duration, error) {
	r := d.of(uid)
	if r == nil {
		return 0, hublink.ErrUnknownMember
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peer == nil || r.hello.Instance != renewal.Instance {
		return 0, hublink.ErrNotConnected
	}
	r.renewals++
	r.uncertain = renewal.LeadershipUncertain
	return time.Minute, nil
}

func (d *directory) Refused(types.UID, error) {}

func (d *directory) Access(uid types.UID) (hublink.Access, bool) {
	return hublink.Access{}, d.of(uid) != nil
}

func (*record) Screen(*fleetv1.Inventory) error { return nil }

// Differing compares with what was reported on all earlier connections: the hub of
// these tests shows all reports.
func (r *record) Differing(theirs *convert.Digest) convert.BucketSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ledger.Digest().Differing(theirs)
}

func (r *record) Part(buckets convert.BucketSet, items []protocol.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.reported {
		if buckets.Has(convert.BucketOf(uid)) {
			delete(r.cache, types.UID(uid))
			delete(r.reported, uid)
		}
	}
	r.ledger.DeleteBuckets(buckets)
	r.applyReports(items)
	r.parts, r.whole = append(r.parts, buckets), true
	r.inventories++
}

func (r *record) Changes(items []protocol.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		panic("a bug in the hub")
	}
	r.applyReports(items)
}

func (r *record) applyReports(items []protocol.Report) {
	for _, item := range items {
		uid := item.Spec.Session.UID
		if item.Gone {
			r.ledger.Delete(string(uid))
			delete(r.cache, uid)
			delete(r.reported, string(uid))
			continue
		}
		r.ledger.Set(string(uid), convert.BucketOf(string(uid)), item.Hash)
		r.cache[uid], r.reported[string(uid)] = itemOf(item.SessionAssignment), item.SessionAssignment
	}
}

// Sums returns the digests of what is shown, which is all that was reported.
func (r *record) Sums() protocol.Sums {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := protocol.Sums{Reported: r.ledger.Digest().Sum()}
	for uid, i := range r.cache {
		sums.Assigned += convert.AssignedHash(string(uid), i.epoch, i.hash)
	}
	return sums
}

func (r *record) Agreed(a protocol.Agreement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agreements = append(r.agreements, a)
}

func (r *record) Results(results []protocol.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, results...)
}

func (r *record) CapacitySequence() uint64 { return 0 }

func (r *record) Capacity(report *fleetv1.CapacityReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.capacity = append(r.capacity, report)
}

// get calls f under the lock.
func get[T any](r *record, f func(*record) T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(r)
}

func (r *record) connected() bool {
	return get(r, func(r *record) bool { return r.peer != nil && r.whole })
}

// put sends an order over the member's connection.
func (r *record) put(order protocol.Order) {
	if peer := get(r, func(r *record) hublink.Peer { return r.peer }); peer != nil {
		peer.Put(order)
	}
}

// hubServer is a real server on a loopback port, with its own certificates.
type hubServer struct {
	t       *testing.T
	pki     *harness.LinkPKI
	files   harness.LinkFiles
	address string
	dir     *directory
	term    int64
	stop    func()
	// helloTimeout is that of the hello and of the inventory, if not the default.
	helloTimeout time.Duration
	// tuning of the connections and sendTimeout, which limits how long a send may
	// block, if not the default.
	tuning      protocol.Tuning
	sendTimeout time.Duration
	// wrap, if set, observes the connections.
	wrap func(net.Listener) net.Listener
}

func startHub(t *testing.T, dir *directory, change ...func(*hubServer)) *hubServer {
	t.Helper()
	pki, err := harness.NewLinkPKI(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := pki.Hub()
	if err != nil {
		t.Fatal(err)
	}
	h := &hubServer{t: t, pki: pki, files: files, dir: dir, term: 1}
	for _, f := range change {
		f(h)
	}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// listen uses the previous address, or a port below those of outgoing
// connections: it must be free when the hub restarts.
func (h *hubServer) listen() net.Listener {
	h.t.Helper()
	var errs []error
	for range 20 {
		address := h.address
		if address == "" {
			address = fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		}
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener
		}
		errs = append(errs, err)
	}
	h.t.Fatal(errors.Join(errs...))
	return nil
}

// start starts a server, at the previous address if there was one.
func (h *hubServer) start() {
	h.t.Helper()
	listener := h.listen()
	h.address = listener.Addr().String()
	if h.wrap != nil {
		listener = h.wrap(listener)
	}
	term := h.term
	server := hublink.NewServer(hublink.Options{
		CertFile: h.files.CertFile, KeyFile: h.files.KeyFile, ClientCAFile: h.pki.CAFile(),
		TrustDomain: harness.TrustDomain, Term: hublink.Term{Current: func() int64 { return term }},
		RenewInterval: func() time.Duration { return 100 * time.Millisecond }, Tuning: h.tuning,
		Timeouts: hublink.Timeouts{Drain: time.Second, Hello: h.helloTimeout, Inventory: h.helloTimeout, Send: h.sendTimeout},
	}, h.dir)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("the server ended: %v", err)
		}
	})
}

func patient(t *testing.T) *WithT {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	return g
}
