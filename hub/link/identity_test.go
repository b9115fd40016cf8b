package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net/url"
	"testing"
)

func TestMemberOfCertificate(t *testing.T) {
	const uid = "0b6a3d5e-9d3c-4e8f-9a55-0c4b5e6f7a81"
	for name, tc := range map[string]struct {
		uris []string
		ok   bool
	}{
		"an agent's":           {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent"}, true},
		"no URI":               {nil, false},
		"two URIs":             {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent", "spiffe://fleet.example/cluster/other/agent"}, false},
		"the same URI twice":   {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent", "spiffe://fleet.example/cluster/" + uid + "/agent"}, false},
		"another trust domain": {[]string{"spiffe://other.example/cluster/" + uid + "/agent"}, false},
		"a longer domain":      {[]string{"spiffe://fleet.example.org/cluster/" + uid + "/agent"}, false},
		"another scheme":       {[]string{"https://fleet.example/cluster/" + uid + "/agent"}, false},
		"another role":         {[]string{"spiffe://fleet.example/cluster/" + uid + "/hub"}, false},
		"no UID":               {[]string{"spiffe://fleet.example/cluster//agent"}, false},
		"more path":            {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent/x"}, false},
		"a path within":        {[]string{"spiffe://fleet.example/cluster/a%2Fb/agent"}, false},
		"an escaped letter":    {[]string{"spiffe://fleet.example/cluster/%61bc/agent"}, false},
		"a query":              {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent?x"}, false},
		"a fragment":           {[]string{"spiffe://fleet.example/cluster/" + uid + "/agent#x"}, false},
		"a port":               {[]string{"spiffe://fleet.example:1/cluster/" + uid + "/agent"}, false},
		"a user":               {[]string{"spiffe://me@fleet.example/cluster/" + uid + "/agent"}, false},
		"a newline":            {[]string{"spiffe://fleet.example/cluster/a%0A/agent"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cert := certificate(t, tc.uris...)
			got, err := memberOf(cert, "fleet.example")
			if tc.ok && (err != nil || got != uid) {
				t.Errorf("memberOf = %q, %v", got, err)
			}
			if !tc.ok && !errors.Is(err, errIdentity) {
				t.Errorf("memberOf = %q, %v; want a refusal", got, err)
			}
		})
	}
}

// certificate of an agent with these URI SANs.
func certificate(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	cert := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, SerialNumber: big.NewInt(255)}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cert.URIs = append(cert.URIs, uri)
	}
	return cert
}

func TestCallerOfAConnection(t *testing.T) {
	agent := certificate(t, AgentURI("fleet.example", "m"))
	server := certificate(t, AgentURI("fleet.example", "m"))
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	noUsage := certificate(t, AgentURI("fleet.example", "m"))
	noUsage.ExtKeyUsage = nil
	verified := func(cert *x509.Certificate) tls.ConnectionState {
		return tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert, {Raw: []byte("ca")}}},
		}
	}
	for name, tc := range map[string]struct {
		state tls.ConnectionState
		want  error
	}{
		"a verified certificate": {verified(agent), nil},
		"none":                   {tls.ConnectionState{}, errNoCertificate},
		"one that is not verified": {
			tls.ConnectionState{PeerCertificates: []*x509.Certificate{agent}}, errIdentity,
		},
		"a server's":               {verified(server), errIdentity},
		"one without a stated use": {verified(noUsage), errIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			caller, err := callerOfState(&tc.state, "fleet.example")
			if !errors.Is(err, tc.want) || (caller == nil) != (tc.want != nil) {
				t.Fatalf("%v, %v", caller, err)
			}
			if caller != nil && (caller.Member != "m" || caller.Serial != "ff" || caller.IssuerHash == "" || caller.PublicKeyHash == "") {
				t.Errorf("%+v", caller)
			}
		})
	}
}
