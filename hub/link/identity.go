package link

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// errIdentity is wrapped by the errors of certificates that name no member.
var errIdentity = errors.New("the certificate names no member")

var agentPath = regexp.MustCompile(`^/cluster/([0-9a-z][-0-9a-z]{0,62})/agent$`)

// AgentURI is the identity that the certificate of a member's agent bears as
// its only URI SAN.
func AgentURI(trustDomain string, member types.UID) string {
	return "spiffe://" + trustDomain + "/cluster/" + string(member) + "/agent"
}

// memberOf returns the member that a verified certificate names.
func memberOf(cert *x509.Certificate, trustDomain string) (types.UID, error) {
	if len(cert.URIs) != 1 {
		return "", fmt.Errorf("%w: it has %d URI SANs instead of one", errIdentity, len(cert.URIs))
	}
	uri := cert.URIs[0]
	match := agentPath.FindStringSubmatch(uri.Path)
	if match == nil {
		return "", fmt.Errorf("%w: %q is not the URI of an agent", errIdentity, uri)
	}
	// The whole text is compared, so that user, port, query, fragment and escapes are
	// refused.
	if uri.String() != AgentURI(trustDomain, types.UID(match[1])) {
		return "", fmt.Errorf("%w: %q is not of trust domain %s", errIdentity, uri, trustDomain)
	}
	return types.UID(match[1]), nil
}

// callerOfState returns the caller of a TLS connection, or an error that wraps
// errNoCertificate or errIdentity if it is no member's agent.
func callerOfState(state *tls.ConnectionState, trustDomain string) (*Caller, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errNoCertificate
	}
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil, fmt.Errorf("%w: it is not verified", errIdentity)
	}
	cert := state.VerifiedChains[0][0]
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return nil, fmt.Errorf("%w: it is not for clients", errIdentity)
	}
	member, err := memberOf(cert, trustDomain)
	if err != nil {
		return nil, err
	}
	caller := &Caller{Member: member, Serial: cert.SerialNumber.Text(16), NotAfter: cert.NotAfter}
	key := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	caller.PublicKeyHash = hex.EncodeToString(key[:])
	if chain := state.VerifiedChains[0]; len(chain) > 1 {
		caller.IssuerHash = v1alpha1.CertificateHash(chain[1].Raw)
	}
	return caller, nil
}

// identifiedPeer is the AuthInfo of a connection with its caller, which never changes: every renewal
// would compute it again. caller is nil, and err is why, if it is no member's agent.
type identifiedPeer struct {
	credentials.TLSInfo
	caller *Caller
	err    error
}

func identify(info credentials.TLSInfo, trustDomain string) identifiedPeer {
	caller, err := callerOfState(&info.State, trustDomain)
	if err != nil {
		return identifiedPeer{TLSInfo: info, err: err}
	}
	return identifiedPeer{TLSInfo: info, caller: caller}
}

// peerOf returns the caller of a call, and its address.
func peerOf(ctx context.Context) (caller *Caller, address string, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, "", fmt.Errorf("%w: no peer", errIdentity)
	}
	if p.Addr != nil {
		address = p.Addr.String()
	}
	info, ok := p.AuthInfo.(identifiedPeer)
	if !ok {
		return nil, address, errNoCertificate
	}
	return info.caller, address, info.err
}

type callerKey struct{}

// withCaller returns a context from which handlers get the admitted caller.
func withCaller(ctx context.Context, caller *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, *caller)
}

// callerFrom returns the admitted caller of a call; an error means that the handler
// was reached without the interceptors.
func callerFrom(ctx context.Context) (Caller, error) {
	caller, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{}, errNoCertificate
	}
	return caller, nil
}
