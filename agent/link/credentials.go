package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var metricCertificateExpiry = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "vdi_agent_link_certificate_expiry_timestamp_seconds",
	Help: "When the certificate that the agent last connected with expires, by the issuer's clock.",
})

func init() { metrics.Registry.MustRegister(metricCertificateExpiry) }

// errReplaced ends a stream in good order: the next one is made with a newer
// certificate.
var errReplaced = errors.New("the agent's certificate was replaced")

// Credential is what one connection is secured with.
type Credential struct {
	// Certificate of the agent.
	Certificate tls.Certificate
	// Roots are the authorities that the hub's certificate is verified with.
	Roots *x509.CertPool
	// TrustBundleHash of Roots, where the hub gave them.
	TrustBundleHash string
	// Replaced is closed when a connection should be made anew with a newer
	// credential; nil where that is never said.
	Replaced <-chan struct{}
}

// Credentials secure the link's connections.
type Credentials interface {
	// Current is what the next connection is made with. It may take a while:
	// an agent that has no certificate asks for one.
	Current(ctx context.Context) (*Credential, error)
	// Used says that the hub has let a connection with it in. It never blocks.
	Used(*Credential)
	// Ended says that a connection with it has ended, or was never let in, and
	// why. It never blocks.
	Ended(*Credential, error)
	// RotateNow says that the hub asks for a rotation. It never blocks.
	RotateNow()
}

// Files are credentials that somebody else issues and replaces. They are read
// anew for every connection.
type Files struct {
	// CertFile and KeyFile are the agent's certificate (PEM), HubCAFile the
	// authorities of the hub's.
	CertFile, KeyFile, HubCAFile string
}

// Current is Credentials'.
func (f Files) Current(context.Context) (*Credential, error) {
	cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the agent's certificate: %w", err)
	}
	text, err := os.ReadFile(f.HubCAFile)
	if err != nil {
		return nil, fmt.Errorf("loading the hub's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("loading the hub's CA: no certificate in %s", f.HubCAFile)
	}
	return &Credential{Certificate: cert, Roots: pool}, nil
}

// Used is Credentials'.
func (Files) Used(*Credential) {}

// Ended is Credentials'.
func (Files) Ended(*Credential, error) {}

// RotateNow is Credentials'.
func (Files) RotateNow() {}

// replaced ends a stream once there is a newer credential than its own.
func (s *stream) replaced(ctx context.Context) error {
	select {
	case <-s.credential.Replaced:
		return errReplaced
	case <-ctx.Done():
		return ctx.Err()
	}
}
