package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

// TrustDomain is the SPIFFE trust domain of the harness's fleets.
const TrustDomain = "vdi-fleet.test"

// LinkPKI makes the certificates of the link between hub and agents without Options.Enroll.
// Its CA is independent of those of the control planes.
type LinkPKI struct {
	CA *pki.CA
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
	ca, err := pki.NewCA("vdi-fleet link")
	if err != nil {
		return nil, err
	}
	p := &LinkPKI{CA: ca, Dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making link PKI: %w", err)
	}
	if err := os.WriteFile(p.CAFile(), ca.CertPEM, 0o644); err != nil {
		return nil, fmt.Errorf("making link PKI: %w", err)
	}
	return p, nil
}

// CAFile returns the file of the certificate that hub and agents trust.
func (p *LinkPKI) CAFile() string { return filepath.Join(p.Dir, "ca.crt") }

// HubRequest returns the content of the hub's certificate.
func HubRequest() pki.CertRequest {
	return pki.CertRequest{
		CommonName: "hub",
		DNSNames:   []string{"localhost"},
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs:       []string{"spiffe://" + TrustDomain + "/hub"},
	}
}

// AgentRequest returns the content of the certificate of a member's agent. uid is the UID of
// its MemberCluster. A caller may change it to get an expired (Expired) or invalid
// certificate.
func AgentRequest(uid string) pki.CertRequest {
	return pki.CertRequest{
		CommonName: "agent",
		URIs:       []string{"spiffe://" + TrustDomain + "/cluster/" + uid + "/agent"},
	}
}

// Hub issues and stores the hub's certificate.
func (p *LinkPKI) Hub() (LinkFiles, error) {
	return p.Write("hub", p.CA, HubRequest())
}

// Agent issues and stores the certificate of a member's agent.
func (p *LinkPKI) Agent(member, uid string) (LinkFiles, error) {
	return p.Write("agent-"+member, p.CA, AgentRequest(uid))
}

// Write issues a certificate from ca, which may be another one, and stores it under the name,
// replacing any earlier one.
func (p *LinkPKI) Write(name string, ca *pki.CA, request pki.CertRequest) (LinkFiles, error) {
	pair, err := ca.Issue(request)
	if err != nil {
		return LinkFiles{}, err
	}
	certFile, keyFile, err := pair.Write(p.Dir, name)
	if err != nil {
		return LinkFiles{}, err
	}
	return LinkFiles{CertFile: certFile, KeyFile: keyFile, CAFile: p.CAFile()}, nil
}
