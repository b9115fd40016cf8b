package link

import (
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// FuzzMemberOf: whatever names a member is exactly the one URI of that member.
func FuzzMemberOf(f *testing.F) {
	for _, text := range []string{
		AgentURI("fleet.example", "0b6a3d5e-9d3c-4e8f-9a55-0c4b5e6f7a81"), "spiffe://fleet.example/cluster/a%2Fb/agent",
		"spiffe://fleet.example:1/cluster/a/agent?x#y", "spiffe://me@fleet.example/cluster/a/agent", "spiffe:/cluster/a/agent",
		"spiffe://fleet.example//cluster/a/agent", "spiffe://FLEET.example/cluster/a/agent", "spiffe://fleet.example/cluster/a/../b/agent",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		uri, err := url.Parse(text)
		if err != nil {
			return
		}
		cert := certificate(t)
		cert.URIs = []*url.URL{uri}
		uid, err := memberOf(cert, "fleet.example")
		if err != nil {
			return
		}
		if uri.String() != AgentURI("fleet.example", uid) || strings.ContainsAny(string(uid), "/%?#@: \n") || uid == "" || len(uid) > 63 {
			t.Fatalf("%q names %q", text, uid)
		}
		cert.URIs = append(cert.URIs, uri)
		if _, err := memberOf(cert, "fleet.example"); err == nil {
			t.Fatalf("%q twice is one", text)
		}
	})
}

// FuzzBounds: what is sent outside of the stream is refused or within bounds.
func FuzzBounds(f *testing.F) {
	marshal := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	renewal := marshal(&fleetv1.RenewLeaseRequest{Instance: "i"})
	f.Add(marshal(&fleetv1.EnrollRequest{Token: "id.secret", CertificateRequest: []byte("r"), Fingerprint: "f"}), renewal)
	f.Add(marshal(&fleetv1.EnrollRequest{Token: "id secret\n"}), renewal)
	f.Fuzz(func(t *testing.T, enrolls, renews []byte) {
		enroll, renewal := &fleetv1.EnrollRequest{}, &fleetv1.RenewLeaseRequest{}
		if proto.Unmarshal(enrolls, enroll) == nil && boundEnroll(enroll) == nil {
			if len(enroll.GetToken()) > maxToken || strings.ContainsAny(enroll.GetToken(), " \n") || len(enroll.GetCertificateRequest()) > maxRequestBytes {
				t.Fatalf("%v", enroll)
			}
		}
		if proto.Unmarshal(renews, renewal) == nil && boundRenewal(renewal) == nil && len(renewal.GetInstance()) > convert.MaxToken {
			t.Fatalf("%v", renewal)
		}
	})
}
