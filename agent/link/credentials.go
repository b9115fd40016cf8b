package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var metricCertificateExpiry = metrics.NewGauge("vdi_agent_link_certificate_expiry_timestamp_seconds",
	"Expiry of the certificate that the agent last connected with.")

// errReplaced ends a stream normally: the next one has a newer certificate.
var errReplaced = errors.New("the agent's certificate was replaced")

// Credential secures one connection.
type Credential struct {
	// Certificate of the agent.
	Certificate tls.Certificate
	// Roots are the CAs that verify the hub's certificate.
	Roots *x509.CertPool
	// TrustBundleHash of Roots, if the hub issued them.
	TrustBundleHash string
	// Replaced is closed when there is a newer credential. It may be nil.
	Replaced <-chan struct{}
}

// Credentials secure the link's connections.
type Credentials interface {
	// Current returns the credential of the next connection. It may block to request one.
	Current(ctx context.Context) (*Credential, error)
	// Used is called when the hub has accepted a connection with it. It never blocks.
	Used(*Credential)
	// Ended is called with the reason when a connection with it has ended, or was not
	// accepted. It never blocks.
	Ended(*Credential, error)
	// RotateNow is called when the hub requests a rotation. It never blocks.
	RotateNow()
}

// Files are credentials that another CA issues and replaces. They are read for every
// connection.
type Files struct {
	// CertFile and KeyFile are the agent's certificate (PEM), HubCAFile the CAs of the
	// hub's.
	CertFile, KeyFile, HubCAFile string
}

// Current implements Credentials.
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

// Used implements Credentials.
func (Files) Used(*Credential) {}

// Ended implements Credentials.
func (Files) Ended(*Credential, error) {}

// RotateNow implements Credentials.
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
