package link

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"k8s.io/apimachinery/pkg/types"
)

// errIdentity is wrapped by all reasons for which a certificate names no
// member.
var errIdentity = errors.New("the certificate names no member")

var agentPath = regexp.MustCompile(`^/cluster/([0-9a-z][-0-9a-z]{0,62})/agent$`)

// AgentURI is the identity that the certificate of a member's agent bears as
// its only URI SAN.
func AgentURI(trustDomain string, member types.UID) string {
	return "spiffe://" + trustDomain + "/cluster/" + string(member) + "/agent"
}

// memberOf reads the member that a verified certificate speaks for.
func memberOf(cert *x509.Certificate, trustDomain string) (types.UID, error) {
	if len(cert.URIs) != 1 {
		return "", fmt.Errorf("%w: it has %d URI SANs instead of one", errIdentity, len(cert.URIs))
	}
	uri := cert.URIs[0]
	match := agentPath.FindStringSubmatch(uri.Path)
	if match == nil {
		return "", fmt.Errorf("%w: %q is not the URI of an agent", errIdentity, uri)
	}
	// The whole text is compared, so that nothing hides in user, port, query,
	// fragment or an escaped path.
	if uri.String() != AgentURI(trustDomain, types.UID(match[1])) {
		return "", fmt.Errorf("%w: %q is not of trust domain %s", errIdentity, uri, trustDomain)
	}
	return types.UID(match[1]), nil
}

// callerOf is the member whose agent makes a call.
func callerOf(ctx context.Context, trustDomain string) (types.UID, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", fmt.Errorf("%w: no peer", errIdentity)
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return "", fmt.Errorf("%w: no verified certificate", errIdentity)
	}
	return memberOf(info.State.VerifiedChains[0][0], trustDomain)
}
