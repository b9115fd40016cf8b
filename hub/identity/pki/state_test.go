package pki

import (
	"bytes"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ca made at a time.
func ca(t testing.TB, id byte, at time.Time) Issuer {
	t.Helper()
	key := ecKey(t, elliptic.P256())
	template := CACertificate(Serial([SerialBytes]byte{1: id}), at)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Issuer{Certificate: certificate, Key: key}
}

func read(t *testing.T, s State) State {
	t.Helper()
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadState(data)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	first, second := ca(t, 1, start), ca(t, 2, start)
	stable := NewState(first, start)
	distributing := stable.Begin(second, start.Add(time.Hour))
	reissuing := distributing.Sign(start.Add(2 * time.Hour))
	for _, s := range []State{stable, distributing, reissuing, reissuing.Finish(start.Add(3 * time.Hour))} {
		t.Run(string(s.Stage), func(t *testing.T) {
			again := read(t, s)
			if again.Stage != s.Stage || !again.Since.Equal(s.Since) ||
				again.BundleHash() != s.BundleHash() || again.Issuer.Hash() != s.Issuer.Hash() || (again.Next == nil) != (s.Next == nil) {
				t.Errorf("got %+v", again)
			}
		})
	}
	data, _ := reissuing.Data()
	oldKey, _ := keyPEM(first.Key)
	for key, value := range data {
		if bytes.Contains(value, oldKey) {
			t.Errorf("%s still has the key of the old CA", key)
		}
	}
	if distributing.BundleHash() != reissuing.BundleHash() {
		t.Error("agents would get the same CAs twice")
	}
}

func TestStateThatIsNotWhole(t *testing.T) {
	stable, other := NewState(ca(t, 1, start), start), NewState(ca(t, 2, start), start)
	distributing := stable.Begin(other.Issuer, start)
	good, _ := distributing.Data()
	otherData, _ := other.Data()
	leaf := AgentCertificate(stable.Issuer.Certificate, Serial([SerialBytes]byte{3}), &url.URL{Scheme: "spiffe", Host: "x"}, start, time.Hour)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, stable.Issuer.Certificate, stable.Issuer.Key.Public(), stable.Issuer.Key)
	if err != nil {
		t.Fatal(err)
	}
	parsedLeaf, _ := x509.ParseCertificate(leafDER)
	for name, test := range map[string]struct {
		change  func(map[string][]byte)
		message string
	}{
		"nothing":                      {func(d map[string][]byte) { clear(d) }, "ca.crt has no certificate"},
		"no key":                       {func(d map[string][]byte) { delete(d, "ca.key") }, "ca.key: it is no PKCS#8 key in PEM"},
		"half a key":                   {func(d map[string][]byte) { d["ca.key"] = d["ca.key"][:60] }, "ca.key"},
		"the key of another":           {func(d map[string][]byte) { d["ca.key"] = otherData["ca.key"] }, "ca.key is not the key of ca.crt"},
		"no bundle":                    {func(d map[string][]byte) { delete(d, "bundle.crt") }, "bundle.crt has no certificate"},
		"a bundle without the CA":      {func(d map[string][]byte) { d["bundle.crt"] = otherData["bundle.crt"] }, "ca.crt is not in bundle.crt"},
		"a bundle without the next CA": {func(d map[string][]byte) { d["bundle.crt"] = d["ca.crt"] }, "next.crt is not in bundle.crt"},
		"no next CA":                   {func(d map[string][]byte) { delete(d, "next.crt") }, "next.crt has no certificate"},
		"a leaf":                       {func(d map[string][]byte) { d["ca.crt"] = CertificatesPEM(parsedLeaf) }, "not of a CA"},
		"two CAs":                      {func(d map[string][]byte) { d["ca.crt"] = d["bundle.crt"] }, "2 certificates instead of one"},
		"another stage":                {func(d map[string][]byte) { d["stage"] = []byte("Later") }, "stage is none of"},
		"another time":                 {func(d map[string][]byte) { d["stageSince"] = []byte("noon") }, "stageSince is no time"},
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(good)
			test.change(data)
			if _, err := ReadState(data); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := ReadState(good); err != nil {
		t.Error(err)
	}
}

func TestCertificatesHaveOneUseAndDoNotOutliveTheirIssuer(t *testing.T) {
	issuer := ca(t, 1, start).Certificate
	uri, _ := url.Parse("spiffe://example/cluster/u/agent")
	serial := Serial([SerialBytes]byte{})
	agent := AgentCertificate(issuer, serial, uri, start, 24*time.Hour)
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, agent.ExtKeyUsage); diff != "" {
		t.Error(diff)
	}
	if len(agent.URIs) != 1 || agent.URIs[0] != uri || len(agent.DNSNames)+len(agent.IPAddresses)+len(agent.EmailAddresses) > 0 || agent.IsCA {
		t.Errorf("an agent is named by more than its URI: %+v", agent)
	}
	if !agent.NotBefore.Equal(start.Add(-Backdate)) || !agent.NotAfter.Equal(start.Add(24*time.Hour)) {
		t.Errorf("valid from %s to %s", agent.NotBefore, agent.NotAfter)
	}
	if serial.Sign() <= 0 || len(SerialText(serial)) != 2*SerialBytes {
		t.Errorf("serial %s", SerialText(serial))
	}
	hub := ServingCertificate(issuer, serial, uri, []string{"hub.example", "10.0.0.1", "fd00::1"}, start)
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, hub.ExtKeyUsage); diff != "" {
		t.Error(diff)
	}
	if len(hub.DNSNames) != 1 || len(hub.IPAddresses) != 2 || hub.IPAddresses[0].String() != "10.0.0.1" {
		t.Errorf("named %v and %v", hub.DNSNames, hub.IPAddresses)
	}
	late := AgentCertificate(issuer, serial, uri, issuer.NotAfter.Add(-time.Hour), 24*time.Hour)
	if !late.NotAfter.Equal(issuer.NotAfter) {
		t.Errorf("valid until %s, the issuer until %s", late.NotAfter, issuer.NotAfter)
	}
	for after, due := range map[time.Duration]bool{0: false, ServingLifetime / 2: false, ServingLifetime * 3 / 4: true} {
		if got := RenewalDue(hub, start.Add(after)); got != due {
			t.Errorf("renewal due after %s: %v", after, got)
		}
	}
}

func TestStepsOfARotation(t *testing.T) {
	const lifetime = 24 * time.Hour
	old, fresh := ca(t, 1, start), ca(t, 2, start)
	stable := NewState(old, start)
	distributing := stable.Begin(fresh, start)
	reissuing := distributing.Sign(start)
	now := start.Add(time.Hour)
	at := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(after)} }
	holding := func(c *v1alpha1.MemberCertificate) []v1alpha1.MemberCluster {
		return []v1alpha1.MemberCluster{{ObjectMeta: metav1.ObjectMeta{Name: "eu"}, Status: v1alpha1.MemberClusterStatus{Certificate: c}}}
	}
	has := func(c v1alpha1.MemberCertificate) []v1alpha1.MemberCluster { return holding(&c) }
	both := distributing.BundleHash()
	eu := []string{"eu"}
	for name, test := range map[string]struct {
		state     State
		requested bool
		members   []v1alpha1.MemberCluster
		now       time.Time
		step      Step
		waiting   []string
	}{
		"nothing to do":              {state: stable, now: now, step: StepNone},
		"requested":                  {state: stable, requested: true, now: now, step: StepBegin},
		"a year before the end":      {state: stable, now: old.Certificate.NotAfter.Add(-RotateBefore + time.Hour), step: StepBegin},
		"requested again":            {state: distributing, requested: true, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime)}), now: now, step: StepNone, waiting: eu},
		"no member to send both to":  {state: distributing, now: now, step: StepSign},
		"sent both and used":         {state: distributing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime), TrustBundleHash: both}), now: now, step: StepSign},
		"sent both and not used":     {state: distributing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime), NextSerial: "2", NextNotAfter: at(lifetime), TrustBundleHash: both}), now: now, step: StepNone, waiting: eu},
		"enrolled and not connected": {state: distributing, members: has(v1alpha1.MemberCertificate{NextSerial: "2", NextNotAfter: at(lifetime), TrustBundleHash: both}), now: now, step: StepNone, waiting: eu},
		"never enrolled":             {state: distributing, members: holding(nil), now: now, step: StepSign},
		"revoked":                    {state: distributing, members: has(v1alpha1.MemberCertificate{}), now: now, step: StepSign},
		"expired":                    {state: distributing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(-time.Second)}), now: now, step: StepSign},
		"away for a lifetime":        {state: distributing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime)}), now: start.Add(lifetime + Backdate + time.Second), step: StepSign},
		"certificate of the old CA":  {state: reissuing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime), TrustBundleHash: both, IssuerHash: old.Hash()}), now: now, step: StepNone, waiting: eu},
		"certificate of the new CA":  {state: reissuing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime), TrustBundleHash: both, IssuerHash: fresh.Hash()}), now: now, step: StepFinish},
		"new one not used":           {state: reissuing, members: has(v1alpha1.MemberCertificate{Serial: "1", NotAfter: at(lifetime), NextSerial: "2", NextNotAfter: at(lifetime), IssuerHash: old.Hash()}), now: now, step: StepNone, waiting: eu},
	} {
		t.Run(name, func(t *testing.T) {
			step, waiting := test.state.StepDue(test.requested, test.members, lifetime, test.now)
			if step != test.step || !cmp.Equal(waiting, test.waiting) {
				t.Errorf("got %s, waiting for %v", step, waiting)
			}
		})
	}
}
