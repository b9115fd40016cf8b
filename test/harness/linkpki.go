package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TrustDomain is the SPIFFE trust domain of the harness's fleets.
const TrustDomain = "vdi-fleet.test"

// LinkPKI makes the certificates of the link between hub and agents, which the
// product does not make yet. It is apart from the control planes' own CAs.
type LinkPKI struct {
	CA *CA
	// Dir is where Hub and Agent store files.
	Dir string
}

// LinkFiles are the files that a hub or an agent is started with.
type LinkFiles struct {
	CertFile string
	KeyFile  string
	CAFile   string
}

// NewLinkPKI makes a CA and stores its certificate in dir/ca.crt.
func NewLinkPKI(dir string) (*LinkPKI, error) {
	ca, err := NewCA("vdi-fleet link")
	if err != nil {
		return nil, err
	}
	pki := &LinkPKI{CA: ca, Dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making link PKI: %w", err)
	}
	if err := os.WriteFile(pki.CAFile(), ca.CertPEM, 0o644); err != nil {
		return nil, fmt.Errorf("making link PKI: %w", err)
	}
	return pki, nil
}

// CAFile holds the certificate that hub and agents trust.
func (pki *LinkPKI) CAFile() string { return filepath.Join(pki.Dir, "ca.crt") }

// HubRequest is what the hub's certificate holds.
func HubRequest() CertRequest {
	return CertRequest{
		CommonName: "hub",
		DNSNames:   []string{"localhost"},
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs:       []string{"spiffe://" + TrustDomain + "/hub"},
	}
}

// AgentRequest is what the certificate of a member's agent holds. uid is that
// of its MemberCluster. Change it before issuing to make one that is expired
// (Expired) or wrong.
func AgentRequest(uid string) CertRequest {
	return CertRequest{
		CommonName: "agent",
		URIs:       []string{"spiffe://" + TrustDomain + "/cluster/" + uid + "/agent"},
	}
}

// Expired returns the request with a validity that ended an hour ago.
func (request CertRequest) Expired() CertRequest {
	request.NotBefore = time.Now().Add(-2 * time.Hour)
	request.NotAfter = time.Now().Add(-time.Hour)
	return request
}

// Hub issues and stores the hub's certificate.
func (pki *LinkPKI) Hub() (LinkFiles, error) {
	return pki.Write("hub", pki.CA, HubRequest())
}

// Agent issues and stores the certificate of a member's agent.
func (pki *LinkPKI) Agent(member, uid string) (LinkFiles, error) {
	return pki.Write("agent-"+member, pki.CA, AgentRequest(uid))
}

// Write issues a certificate from ca, which may be a foreign one, and stores it
// under the name, over the one that was there.
func (pki *LinkPKI) Write(name string, ca *CA, request CertRequest) (LinkFiles, error) {
	pair, err := ca.Issue(request)
	if err != nil {
		return LinkFiles{}, err
	}
	certFile, keyFile, err := pair.Write(pki.Dir, name)
	if err != nil {
		return LinkFiles{}, err
	}
	return LinkFiles{CertFile: certFile, KeyFile: keyFile, CAFile: pki.CAFile()}, nil
}
