package link

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Options of a Server. There is none that turns off TLS, or lets in an agent
// without a certificate.
type Options struct {
	// CertFile and KeyFile are the server's certificate (PEM), ClientCAFile
	// the authorities that agents' certificates are verified with. All are
	// read again when they change.
	CertFile, KeyFile, ClientCAFile string
	// Authority issues certificates, and is used in place of the files.
	Authority Authority
	// Leading reports whether this hub certainly leads: what is asked of one that
	// does not is refused. Always, if nil.
	Leading func() bool
	// TrustDomain that the agents' identities must lie in.
	TrustDomain string
	// Term of this leader.
	Term Term
	// RenewInterval is how often agents are asked to renew their lease,
	// 5 s by default.
	RenewInterval time.Duration
	// ReviewInterval is how often the open streams are authorized again, 1 s by
	// default: a certificate that expires, or is revoked, ends its stream so soon.
	ReviewInterval time.Duration
	// Timeouts of connections and calls.
	Timeouts Timeouts
	// Limits of what agents may ask.
	Limits Limits
	// Now is the clock that certificates and rates are judged by; it should
	// not jump. time.Now, if nil.
	Now func() time.Time
	// Trace of sessions' lifecycles; nothing is traced if nil.
	Trace *tracing.Tracer
	// Tuning of the connections.
	Tuning protocol.Tuning
}

// Term is how a Server learns the term of its leader, and raises it. All but Current
// may be nil.
type Term struct {
	// Current returns the term, which may grow. It is called at each connection and
	// renewal.
	Current func() int64
	// First returns the term that this leader began with, above all that earlier
	// leaders had, as long as the hub was not restored from a backup. So an agent
	// that has seen a term from there on, and was not sent it by this leader, has
	// seen a hub of before the restore. If nil, another leader may have had the same.
	First func() int64
	// Raise makes Current higher than one that an agent has seen of a hub of before
	// a restore, durably. It is called while this hub certainly leads, once a member
	// at most, and for a term that is proven. If nil, such an agent is refused for
	// good.
	Raise func(ctx context.Context, seen int64) error
	// Ordered is called after orders were sent: Current should grow soon. It must not
	// block.
	Ordered func()
	// Proof returns what proves that a hub with the same key sent a member a term. If
	// nil, nothing is proven.
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
	// Drain is how long streams get to end by themselves at shutdown, 10 s by default.
	Drain time.Duration
	// Send is how long an agent may take no message while there is one, 20 s by
	// default.
	Send time.Duration
}

func (o *Options) setDefaults() {
	t := &o.Timeouts
	setDefaults([]setting[time.Duration]{
		{&o.RenewInterval, 5 * time.Second}, {&o.ReviewInterval, time.Second},
		{&t.ClientHello, 3 * time.Second}, {&t.Call, 10 * time.Second}, {&t.Hello, 10 * time.Second},
		{&t.Inventory, 60 * time.Second}, {&t.Drain, 10 * time.Second}, {&t.Send, defaultSendTimeout},
	})
	o.Limits.setDefaults(o.RenewInterval)
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
	// defaultSendTimeout is how long an agent may take no message.
	defaultSendTimeout = 20 * time.Second
	// leastTimeout is what a time factor leaves of a timeout, since a machine that is
	// busy is not scaled with it.
	leastTimeout = 2 * time.Second
)

// ScaledTimeouts are the defaults of Tuning.AckTimeout and Timeouts.Send
// times a factor, and 2 s at the least.
func ScaledTimeouts(factor float64) (ack, send time.Duration) {
	scaled := func(d time.Duration) time.Duration {
		return max(time.Duration(float64(d)*factor), leastTimeout)
	}
	return scaled(protocol.DefaultAckTimeout), scaled(defaultSendTimeout)
}
