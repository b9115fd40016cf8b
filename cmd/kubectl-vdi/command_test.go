package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func run(c *cluster, stdin string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newCommand(c)
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

// newCA returns a CA's certificate as PEM, and its hash.
func newCA(t *testing.T) (text []byte, hash string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), v1alpha1.CertificateHash(der)
}

func hubCA(bundle ...[]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: v1alpha1.AuthoritySecret},
		Data: map[string][]byte{
			v1alpha1.AuthorityCertificate: bundle[0], v1alpha1.AuthorityBundle: bytes.Join(bundle, nil),
		},
	}
}

// fakeHub returns the hub's cluster without an API server.
func fakeHub(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Secret{}, "type", func(o client.Object) []string { return []string{string(o.(*corev1.Secret).Type)} }).Build()}
}

var joinEU = []string{"join", "eu", "--region=eu-west", "--ingress-domain=eu.example.com"}

func TestJoinRegistersAMemberAndPrintsTheCommandThatInstalls(t *testing.T) {
	g := NewWithT(t)
	old, oldHash := newCA(t)
	next, nextHash := newCA(t)
	c := fakeHub(t, hubCA(old, next))
	args := append(joinEU, "--zone=eu-west-a", "--taint=team=red:NoSchedule", "--hub=hub.example.com:8443")
	out, err := run(c, "", append(args, "-o", "json")...)
	g.Expect(err).NotTo(HaveOccurred())
	var answer joined
	g.Expect(json.Unmarshal([]byte(out), &answer)).To(Succeed())
	g.Expect(answer.Created).To(BeTrue())
	g.Expect(answer.CAHashes).To(Equal([]string{oldHash, nextHash}), "every CA that the hub may show")
	g.Expect(answer.Command).To(Equal("kubectl vdi install-agent --context MEMBER --member eu --hub hub.example.com:8443 --ca-hash " +
		oldHash + "," + nextHash + " --token -"))

	member := &v1alpha1.MemberCluster{}
	g.Expect(c.client.Get(t.Context(), client.ObjectKey{Name: "eu"}, member)).To(Succeed())
	g.Expect(member.Spec.Region).To(Equal("eu-west"))
	g.Expect(member.Spec.Taints).To(ConsistOf(corev1.Taint{Key: "team", Value: "red", Effect: "NoSchedule"}))

	id, ok := v1alpha1.JoinTokenID(answer.Token)
	g.Expect(ok).To(BeTrue())
	token := &corev1.Secret{}
	g.Expect(c.client.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: "join-" + id}, token)).To(Succeed())
	g.Expect(token.Type).To(Equal(v1alpha1.JoinTokenType))
	g.Expect(token.OwnerReferences).To(HaveExactElements(HaveField("UID", member.UID)))
	g.Expect(string(token.Data[v1alpha1.JoinTokenHash])).To(Equal(v1alpha1.JoinTokenSum(answer.Token)))
	g.Expect(string(token.Data[v1alpha1.JoinTokenMemberUID])).To(Equal(string(member.UID)))
	expires, err := time.Parse(time.RFC3339, string(token.Data[v1alpha1.JoinTokenExpires]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(expires).To(BeTemporally("<=", time.Now().Add(v1alpha1.JoinTokenLifetime)))
	for key, value := range token.Data {
		g.Expect(string(value)).NotTo(ContainSubstring(strings.TrimPrefix(answer.Token, id+".")), key)
	}

	text, err := run(c, "", args...)
	g.Expect(err).NotTo(HaveOccurred(), "the same again is another token")
	g.Expect(text).To(And(ContainSubstring("is already registered"), Not(ContainSubstring(answer.Token))))
	for line := range strings.Lines(text) {
		if strings.Contains(line, "install-agent") {
			g.Expect(line).To(HaveSuffix(" --token -\n"), "the token is not an argument")
		}
	}
	g.Expect(text).To(MatchRegexp(`(?m)^  [a-z2-7]{8}\.[a-z2-7]{52}$`), "the token, alone in its line")
}

func TestJoinReturnsErrorsWithRemedies(t *testing.T) {
	g := NewWithT(t)
	ca, _ := newCA(t)
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"},
		Spec: v1alpha1.MemberClusterSpec{Region: "us", IngressDomain: "eu.example.com"}}
	revoked := member.DeepCopy()
	revoked.Spec.Region, revoked.Spec.Access = "eu-west", v1alpha1.AccessRevoked
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: hubService}}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		args    []string
		want    string
	}{
		{"another spec", []client.Object{hubCA(ca), member}, []string{"--hub=h:1"}, "another --region"},
		{"revoked", []client.Object{hubCA(ca), revoked}, []string{"--hub=h:1"}, "kubectl vdi allow eu"},
		{"no CA", nil, []string{"--hub=h:1"}, "--ca-hash"},
		{"an empty CA", []client.Object{hubCA([]byte("x"))}, []string{"--hub=h:1"}, "no certificate"},
		{"no Service", []client.Object{hubCA(ca)}, nil, "--hub"},
		{"no load balancer", []client.Object{hubCA(ca), service}, nil, "--hub"},
		{"no port", []client.Object{hubCA(ca)}, []string{"--hub=h"}, "host:port"},
		{"a bad hash", nil, []string{"--hub=h:1", "--ca-hash=12"}, "--ca-hash"},
		{"a bad taint", nil, []string{"--hub=h:1", "--taint=a=b:NoExecute"}, "--taint"},
		{"a bad format", nil, []string{"--hub=h:1", "-o=yaml"}, "--output"},
	} {
		c := fakeHub(t, tc.objects...)
		_, err := run(c, "", append(joinEU, tc.args...)...)
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), tc.name)
		tokens := &corev1.SecretList{}
		g.Expect(c.client.List(t.Context(), tokens)).To(Succeed())
		for _, secret := range tokens.Items {
			g.Expect(secret.Type).NotTo(Equal(v1alpha1.JoinTokenType), tc.name)
		}
	}
	_, err := run(fakeHub(t), "", "join", "eu", "--region=x")
	g.Expect(err).To(MatchError(ContainSubstring("ingress-domain")))
}

func TestTheHubsAddressIsItsLoadBalancers(t *testing.T) {
	g := NewWithT(t)
	ca, _ := newCA(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: hubService}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 8443}}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	out, err := run(fakeHub(t, hubCA(ca), service), "", joinEU...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("--hub 192.0.2.1:8443 --hub-server-name vdi-hub.vdi-system.svc "))
}

func TestTheCAIsRotatedByAnAnnotation(t *testing.T) {
	g := NewWithT(t)
	ca, _ := newCA(t)
	c := fakeHub(t, hubCA(ca))
	g.Expect(run(c, "", "rotate-ca")).To(ContainSubstring("old CA"))
	secret := &corev1.Secret{}
	g.Expect(c.client.Get(t.Context(), client.ObjectKeyFromObject(hubCA(ca)), secret)).To(Succeed())
	g.Expect(secret.Annotations).To(HaveKey(v1alpha1.AnnotationRotateCA))
	g.Expect(secret.Data).To(Equal(hubCA(ca).Data))
	_, err := run(fakeHub(t), "", "rotate-ca")
	g.Expect(err).To(MatchError(ContainSubstring("reading the hub's CA")))
}
