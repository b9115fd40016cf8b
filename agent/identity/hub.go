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
	// callTimeout of an enrollment or rotation, with TCP and TLS. It is no
	// promise of ours and not scaled.
	callTimeout = 10 * time.Second
	// maxAnswer of the hub: a chain and a few CAs.
	maxAnswer = 256 << 10
)

// errPin is for a hub that shows no chain of a CA whose hash was given.
var errPin = errors.New("the hub's certificate is not of the CA whose hash was given")

// call makes one call on a connection of its own.
func (o *Options) call(ctx context.Context, config *tls.Config, f func(context.Context, fleetv1.FleetServiceClient) error) error {
	config.MinVersion, config.ServerName = tls.VersionTLS13, o.serverName()
	conn, err := grpc.NewClient(o.HubAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return fmt.Errorf("dialling the hub: %w", err)
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

// pinned verifies the hub by the hashes of CAs alone, before there is a trust
// bundle: the hub sends its CA's certificate with its own.
func (o *Options) pinned(pins []string) *tls.Config {
	return &tls.Config{
		// What crypto/tls would verify with is not known yet: VerifyConnection
		// does all of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(connection tls.ConnectionState) error {
			if err := verifyPinned(connection.PeerCertificates, pins, o.serverName()); err != nil {
				return fmt.Errorf("%s: %w", unverified, err) // in the words of crypto/tls
			}
			return nil
		},
	}
}

// verifyPinned verifies a chain against those CAs in it whose hash is among
// the pins.
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

// What crypto/tls says where a certificate was not taken. A handshake that
// failed has no code of its own: gRPC reports it as Unavailable, in these words.
const (
	unverified      = "tls: failed to verify certificate"
	refusedByRemote = "remote error: tls: "
)

// permanent reports whether a call would fail again if it were repeated.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unimplemented, codes.InvalidArgument:
		return true
	}
	return refusal(err) || errors.Is(err, errToken) || errors.Is(err, errNoPin)
}

// refusal reports whether a connection ended because of certificates: the hub does not
// accept the agent's, or the agent not the hub's.
func refusal(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return true
	case codes.Unavailable:
		text := err.Error()
		return strings.Contains(text, refusedByRemote) || strings.Contains(text, unverified)
	}
	return false
}
