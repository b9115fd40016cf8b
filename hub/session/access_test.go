package session

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

func TestVersionTellsContentsApart(t *testing.T) {
	type content struct {
		uid  types.UID
		kind corev1.SecretType
		data map[string][]byte
	}
	data := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	seen := map[string]content{}
	for _, c := range []content{
		{"uid", "Opaque", data("a", "b")},
		{"uid-2", "Opaque", data("a", "b")},
		{"uid", "other", data("a", "b")},
		{"uid", "Opaque", data("a", "c")},
		{"uid", "Opaque", data("ab", "")},
		{"uid", "Opaque", data("", "ab")},
		{"uid", "Opaque", data("a", "b", "c", "d")},
		{"uid", "Opaque", data("a", "bc", "", "d")},
		{"uid", "Opaque", nil},
	} {
		version := versionOf(c.uid, c.kind, c.data)
		if other, ok := seen[version]; ok {
			t.Errorf("%v and %v have the same version", c, other)
		}
		seen[version] = c
		if again := versionOf(c.uid, c.kind, c.data); again != version || len(version) != versionLength {
			t.Errorf("%v has version %q, and then %q", c, version, again)
		}
	}
}

func TestPasswordsAreRandomAndLong(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	one, two := newAccessSecret(s, run{5, 1}), newAccessSecret(s, run{5, 1})
	if bytes.Equal(one.Data["password"], two.Data["password"]) {
		t.Error("two passwords are equal")
	}
	if n := len(one.Data["password"]) * 5; n < 160 {
		t.Errorf("a password has %d bits", n)
	}
}

func TestAccessDataIsWhatCanBeUsed(t *testing.T) {
	long := bytes.Repeat([]byte("x"), longestPassword+1)
	for _, c := range []struct {
		name string
		data map[string][]byte
		want bool
	}{
		{"ours", map[string][]byte{"username": []byte("desktop"), "password": []byte("p")}, true},
		{"with more in it", map[string][]byte{"username": []byte("u"), "password": []byte("p"), "junk": long}, true},
		{"no password", map[string][]byte{"username": []byte("u")}, false},
		{"an empty one", map[string][]byte{"username": []byte("u"), "password": nil}, false},
		{"no username", map[string][]byte{"password": []byte("p")}, false},
		{"too long", map[string][]byte{"username": []byte("u"), "password": long}, false},
		{"nothing", nil, false},
	} {
		data, ok := accessData(&corev1.Secret{Data: c.data})
		if ok != c.want || ok && len(data) != 2 {
			t.Errorf("%s: got %d keys, %t", c.name, len(data), ok)
		}
	}
}

func TestRuns(t *testing.T) {
	ordered := []run{{}, {0, 7}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {10, 1}}
	for i, a := range ordered {
		if parsed, ok := parseRun(a.String()); !ok || parsed != a {
			t.Errorf("%s is read as %s, %t", a, parsed, ok)
		}
		for j, b := range ordered {
			if a.before(b) != (i < j) {
				t.Errorf("%s before %s is %t", a, b, a.before(b))
			}
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.2.3", "one.two", " 1.2", "01.2", "1.2 "} {
		if r, ok := parseRun(text); ok {
			t.Errorf("%q is read as %s", text, r)
		}
	}
}

func TestNamedSecretsAreEachOnce(t *testing.T) {
	spec := &v1alpha1.TemplateSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}},
		Secrets:          []v1alpha1.SecretUse{{Name: "b"}, {Name: "c"}},
	}
	got := namedSecrets(spec)
	if len(got) != 3 || got[0] != "a" || got[1] != "b" || got[2] != "c" {
		t.Errorf("got %v", got)
	}
}
