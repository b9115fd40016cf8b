package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	// callTimeout of an enrollment or rotation, including TCP and TLS. It is not scaled.
	callTimeout = 10 * time.Second
	// maxAnswer of the hub: a chain and a few CAs.
	maxAnswer = 256 << 10
)

// errPin is for a hub without a chain of a CA whose hash was given.
var errPin = errors.New("the hub's certificate is not issued by a CA with the given hash")

// call makes one call on a connection of its own.
func (o *Options) call(ctx context.Context, config *tls.Config, f func(context.Context, fleetv1.FleetServiceClient) error) error {
	config.MinVersion, config.ServerName = tls.VersionTLS13, o.serverName()
	conn, err := grpc.NewClient(o.HubAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return fmt.Errorf("dialing the hub: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx, fleetv1.NewFleetServiceClient(conn))
}

// serverName that the hub's certificate must have.
func (o *Options) serverName() string {
	if o.HubServerName != "" {
		return o.HubServerName
	}
	host, _, err := net.SplitHostPort(o.HubAddress)
	if err != nil {
		return o.HubAddress
	}
	return host
}

// pinned returns the configuration that verifies the hub by the hashes of CAs, before there
// is a trust bundle: the hub sends its CA's certificate with its own.
func (o *Options) pinned(pins []string) *tls.Config {
	return &tls.Config{
		// The roots are not known yet: VerifyConnection verifies.
		InsecureSkipVerify: true,
		VerifyConnection: func(connection tls.ConnectionState) error {
			if err := verifyPinned(connection.PeerCertificates, pins, o.serverName()); err != nil {
				return fmt.Errorf("%s: %w", unverified, err) // as crypto/tls does
			}
			return nil
		},
	}
}

// verifyPinned verifies a chain against the CAs in it whose hash is pinned.
func verifyPinned(chain []*x509.Certificate, pins []string, serverName string) error {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range chain {
		if cert.IsCA && slices.Contains(pins, v1alpha1.CertificateHash(cert.Raw)) {
			roots.AddCert(cert)
			found = true
		}
		others.AddCert(cert)
	}
	if !found {
		return fmt.Errorf("%w (%s)", errPin, strings.Join(pins, ", "))
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: others, DNSName: serverName,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// Texts of crypto/tls for rejected certificates. gRPC reports a failed handshake as
// Unavailable, with one of these texts.
const (
	unverified       = "tls: failed to verify certificate"
	rejectedByRemote = "remote error: tls: "
)

// permanent reports whether a call would fail again if it were repeated.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unimplemented, codes.InvalidArgument:
		return true
	}
	return isCertificateError(err) || errors.Is(err, errToken) || errors.Is(err, errNoPin)
}

// isCertificateError reports whether the hub did not accept the agent's certificate, or the
// agent not the hub's.
func isCertificateError(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return true
	case codes.Unavailable:
		text := err.Error()
		return strings.Contains(text, rejectedByRemote) || strings.Contains(text, unverified)
	}
	return false
}
