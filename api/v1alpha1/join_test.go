package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestOnlyATokenHasAnID(t *testing.T) {
	secret := strings.Repeat("aZ_-", 8)
	for name, test := range map[string]struct {
		token, id string
	}{
		"a token":                {"abc123." + secret, "abc123"},
		"nothing":                {"", ""},
		"no dot":                 {"abc123" + secret, ""},
		"an id that is short":    {"abc12." + secret, ""},
		"an id that is long":     {strings.Repeat("a", 33) + "." + secret, ""},
		"an id in capitals":      {"ABC123." + secret, ""},
		"an id with a slash":     {"abc/23." + secret, ""},
		"a secret that is short": {"abc123." + secret[1:], ""},
		"a secret that is long":  {"abc123." + strings.Repeat("a", 129), ""},
		"a line after it":        {"abc123." + secret + "\n", ""},
		"a second dot":           {"abc123." + secret + ".x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			id, ok := v1alpha1.JoinTokenID(test.token)
			if id != test.id || ok != (test.id != "") {
				t.Errorf("got %q, %v", id, ok)
			}
		})
	}
}

func TestATokenIsKeptByItsSum(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := v1alpha1.JoinTokenSum("abc"); got != want {
		t.Errorf("got %s", got)
	}
	if got := v1alpha1.CertificateHash([]byte("abc")); got != "sha256:"+want {
		t.Errorf("got %s", got)
	}
}
