package link

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Options of a Server. None turns off TLS, or admits an agent without a certificate.
type Options struct {
	// CertFile and KeyFile are the server's certificate (PEM), ClientCAFile the
	// authorities for agents' certificates. All are reloaded when they change.
	CertFile, KeyFile, ClientCAFile string
	// Authority issues certificates, and is used in place of the files.
	Authority Authority
	// Leading reports whether this hub certainly leads; if not, calls are refused. Nil
	// means always.
	Leading func() bool
	// TrustDomain of the agents' identities.
	TrustDomain string
	// Term of this leader.
	Term Term
	// RenewInterval returns how often an agent that connects now must renew its lease, 5 s by
	// default.
	RenewInterval func() time.Duration
	// ReauthorizeInterval is how often the open streams are authorized again, 1 s by
	// default: that soon the stream of an expired or revoked certificate ends.
	ReauthorizeInterval time.Duration
	// Timeouts of connections and calls.
	Timeouts Timeouts
	// Limits of agents and unauthenticated callers.
	Limits Limits
	// Now is the clock for certificates and rates, time.Now by default. It should not
	// jump.
	Now func() time.Time
	// Trace of sessions' lifecycles; nothing is traced if nil.
	Trace *tracing.Tracer
	// Tuning of the connections.
	Tuning protocol.Tuning
}

// Term reads and raises the term of the leader. All fields but Current may be nil.
type Term struct {
	// Current returns the term, which may grow. It is called at each connection and
	// renewal.
	Current func() int64
	// First returns the term that this leader began with, which is above those of
	// earlier leaders unless the hub was restored from a backup. So an agent that has
	// seen this or a later term, and not from this leader, has seen a hub of before the
	// restore. If nil, another leader may have had the same.
	First func() int64
	// Raise durably makes Current higher than a term that an agent has seen of a hub
	// of before a restore. It is called while this hub certainly leads, at most once for
	// each member, for a proven term. If nil, such an agent is always refused.
	Raise func(ctx context.Context, seen int64) error
	// Ordered is called after orders were sent, so that Current grows soon. It must not
	// block.
	Ordered func()
	// Proof returns the proof that a hub with this key sent a member a term. If nil, no
	// term is proven.
	Proof func(member types.UID, term int64) string
}

// Timeouts of connections and calls.
type Timeouts struct {
	// ClientHello is how long a connection may send no TLS ClientHello, and after the
	// handshake, without a client certificate, no HTTP/2 preface. 3 s by default.
	ClientHello time.Duration
	// Call is how long any call but Connect may take, its message included, 10 s by
	// default.
	Call time.Duration
	// Hello is how long an agent may take to send Hello, and to finish the TLS
	// handshake, 10 s by default.
	Hello time.Duration
	// Inventory is how long an agent may take for each page of its inventory, 60 s by
	// default.
	Inventory time.Duration
	// Drain is how long streams may take to end at shutdown, 10 s by default.
	Drain time.Duration
	// Send is how long an agent may take to read a message, 20 s by default.
	Send time.Duration
}

func (o *Options) setDefaults() {
	t := &o.Timeouts
	setDefaults([]setting[time.Duration]{
		{&o.ReauthorizeInterval, time.Second},
		{&t.ClientHello, 3 * time.Second}, {&t.Call, 10 * time.Second}, {&t.Hello, 10 * time.Second},
		{&t.Inventory, 60 * time.Second}, {&t.Drain, 10 * time.Second}, {&t.Send, defaultSendTimeout},
	})
	if o.RenewInterval == nil {
		o.RenewInterval = func() time.Duration { return 5 * time.Second }
	}
	o.Limits.setDefaults(o.RenewInterval())
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Tuning.SetDefaults()
}

// setting is a number with its default.
type setting[T int | time.Duration] struct {
	value    *T
	standard T
}

func setDefaults[T int | time.Duration](settings []setting[T]) {
	for _, s := range settings {
		if *s.value <= 0 {
			*s.value = s.standard
		}
	}
}

const (
	defaultSendTimeout = 20 * time.Second
	// minTimeout bounds scaled timeouts: the delays of a busy machine do not scale.
	minTimeout = 2 * time.Second
)

// ScaledTimeouts returns the defaults of Tuning.AckTimeout and Timeouts.Send times a
// factor, and at least 2 s.
func ScaledTimeouts(factor float64) (ack, send time.Duration) {
	scaled := func(d time.Duration) time.Duration {
		return max(time.Duration(float64(d)*factor), minTimeout)
	}
	return scaled(protocol.DefaultAckTimeout), scaled(defaultSendTimeout)
}
