package link

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Options of a Server. There is none that turns off TLS, or lets in an agent
// without a certificate.
type Options struct {
	// BindAddress is host:port to listen on.
	BindAddress string
	// CertFile and KeyFile are the server's certificate (PEM), ClientCAFile
	// the authorities that agents' certificates are verified with. All are
	// read again when they change.
	CertFile, KeyFile, ClientCAFile string
	// Authority issues certificates, and is used in place of the files.
	Authority Authority
	// Leading is whether this hub still leads for certain: what is asked of one
	// that does not is refused. Always, if nil.
	Leading func() bool
	// TrustDomain that the agents' identities must lie in.
	TrustDomain string
	// HubTerm is the term of this leader, which may grow. It is asked at each
	// connection and renewal.
	HubTerm func() int64
	// FirstTerm is the term that this leader began with, above all that earlier
	// leaders had, as long as the hub was not restored from a backup. So an agent
	// that has seen a term from there on, and was not told it by this leader, has
	// seen a hub of before the restore. nil: another leader may have had the same.
	FirstTerm func() int64
	// RaiseTerm makes HubTerm higher than one that an agent has seen of a hub of
	// before a restore, durably. It is called while this hub leads for certain, once
	// a member at most, and for a term that is proven. If nil, such an agent is
	// refused for good.
	RaiseTerm func(ctx context.Context, seen int64) error
	// Ordered is called after orders were sent: HubTerm should grow soon. It must not
	// block. May be nil.
	Ordered func()
	// TermProof is what proves that a hub with the same key told a member a term. If
	// nil, nothing is proven.
	TermProof func(member types.UID, term int64) string
	// RenewInterval is how often agents are asked to renew their lease,
	// 5 s by default.
	RenewInterval time.Duration
	// ClientHelloTimeout is how long a connection may send no TLS ClientHello, and
	// after the handshake, without a client certificate, no HTTP/2 preface. 3 s by
	// default.
	ClientHelloTimeout time.Duration
	// CallTimeout is how long any call but Connect may take, its message included,
	// 10 s by default.
	CallTimeout time.Duration
	// HelloTimeout is how long an agent may take to say Hello, and to finish the
	// TLS handshake, 10 s by default.
	HelloTimeout time.Duration
	// InventoryTimeout is how long an agent may take for each page of its
	// inventory, 60 s by default.
	InventoryTimeout time.Duration
	// DrainTimeout is how long streams get to end by themselves at shutdown,
	// 10 s by default.
	DrainTimeout time.Duration
	// SendTimeout is how long an agent may take no message while there is one,
	// 20 s by default.
	SendTimeout time.Duration
	// ReviewInterval is how often the open streams are judged again, 1 s by
	// default: a certificate that expires, or is revoked, ends its stream so soon.
	ReviewInterval time.Duration
	// Limits of what agents may ask.
	Limits Limits
	// Now is the clock that certificates and rates are judged by; it should
	// not jump. time.Now, if nil.
	Now func() time.Time
	// Trace of sessions' walks; nil: none.
	Trace *tracing.Tracer
	// Tuning of the connections.
	Tuning protocol.Tuning
}

func (o *Options) setDefaults() {
	setDefault(&o.RenewInterval, 5*time.Second)
	setDefault(&o.ClientHelloTimeout, 3*time.Second)
	setDefault(&o.CallTimeout, 10*time.Second)
	setDefault(&o.HelloTimeout, 10*time.Second)
	setDefault(&o.InventoryTimeout, 60*time.Second)
	setDefault(&o.DrainTimeout, 10*time.Second)
	setDefault(&o.SendTimeout, defaultSendTimeout)
	setDefault(&o.ReviewInterval, time.Second)
	o.Limits.setDefaults(o.RenewInterval)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Tuning.SetDefaults()
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

func (o *Options) validate() error {
	switch {
	case o.BindAddress == "":
		return errors.New("link: no bind address")
	case o.Authority == nil && (o.CertFile == "" || o.KeyFile == "" || o.ClientCAFile == ""):
		return errors.New("link: an authority, or server certificate, key and client CA are required")
	case o.TrustDomain == "":
		return errors.New("link: no trust domain")
	case o.HubTerm == nil:
		return errors.New("link: no source of the hub's term")
	}
	return nil
}

const (
	// defaultSendTimeout is how long an agent may take no message.
	defaultSendTimeout = 20 * time.Second
	// leastTimeout is what a time factor leaves of a timeout, since a machine that is
	// busy is not scaled with it.
	leastTimeout = 2 * time.Second
)

// ScaledTimeouts are the defaults of Tuning.AckTimeout and Options.SendTimeout
// times a factor, and 2 s at the least.
func ScaledTimeouts(factor float64) (ack, send time.Duration) {
	scaled := func(d time.Duration) time.Duration {
		return max(time.Duration(float64(d)*factor), leastTimeout)
	}
	return scaled(protocol.DefaultAckTimeout), scaled(defaultSendTimeout)
}
