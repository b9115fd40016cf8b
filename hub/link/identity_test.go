package link

import (
	"crypto/x509"
	"errors"
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
			cert := &x509.Certificate{}
			for _, text := range tc.uris {
				uri, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				cert.URIs = append(cert.URIs, uri)
			}
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
