package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
)

func request(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "admin"}, DNSNames: []string{"hub"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeysThatAreAllowed(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key     crypto.Signer
		message string
	}{
		"P-256":    {ecKey(t, elliptic.P256()), ""},
		"P-384":    {ecKey(t, elliptic.P384()), ""},
		"P-521":    {ecKey(t, elliptic.P521()), "P-256 or P-384"},
		"P-224":    {ecKey(t, elliptic.P224()), "P-256 or P-384"},
		"Ed25519":  {edKey, ""},
		"RSA 2048": {rsaKey(t, 2048), ""},
		"RSA 1024": {rsaKey(t, 1024), "2048 to 4096 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ReadRequest(request(t, test.key))
			if test.message != "" {
				if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), test.message) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := KeyHash(key)
			want, _ := KeyHash(test.key.Public())
			if got != want || len(got) != 64 {
				t.Errorf("got key %s, want %s", got, want)
			}
		})
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	good := request(t, ecKey(t, elliptic.P256()))
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	parsed, err := x509.ParseCertificateRequest(good)
	if err != nil {
		t.Fatal(err)
	}
	other := request(t, ecKey(t, elliptic.P256()))
	// The key of one with the signature of another.
	swapped := append([]byte(nil), good...)
	copy(swapped[len(swapped)-len(parsed.Signature):], other[len(other)-len(parsed.Signature):])
	for name, der := range map[string][]byte{
		"nothing":                  nil,
		"text":                     []byte("-----BEGIN CERTIFICATE REQUEST-----"),
		"one that is cut off":      good[:len(good)-1],
		"a signature that is off":  forged,
		"the signature of another": swapped,
		"more than is read":        append(good, make([]byte, maxRequest)...),
	} {
		t.Run(name, func(t *testing.T) {
			if key, err := ReadRequest(der); !errors.Is(err, ErrRequest) {
				t.Errorf("got %v, %v", key, err)
			}
		})
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add(request(f, ecKey(f, elliptic.P256())))
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, der []byte) {
		key, err := ReadRequest(der)
		if (err == nil) == (key == nil) {
			t.Fatalf("key %v, error %v", key, err)
		}
		if err != nil && !errors.Is(err, ErrRequest) {
			t.Fatalf("error %v", err)
		}
		if key != nil {
			if _, err := KeyHash(key); err != nil {
				t.Fatal(err)
			}
		}
	})
}
