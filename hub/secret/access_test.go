package secret

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestVersionOf(t *testing.T) {
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
	template := &v1alpha1.TemplateSpec{}
	one, two := newAccess(s, template, status.Run{Epoch: 5, Number: 1}), newAccess(s, template, status.Run{Epoch: 5, Number: 1})
	if bytes.Equal(one.Data["password"], two.Data["password"]) {
		t.Error("two passwords are equal")
	}
	if n := len(one.Data["password"]) * 5; n < 160 {
		t.Errorf("a password has %d bits", n)
	}
}

func TestTheUsernameIsTheTemplates(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	for username, want := range map[string]string{"": "desktop", "kasm_user": "kasm_user"} {
		secret := newAccess(s, &v1alpha1.TemplateSpec{Access: v1alpha1.Access{Username: username}}, status.Run{Epoch: 5, Number: 1})
		if got := string(secret.Data["username"]); got != want {
			t.Errorf("with %q it is %q", username, got)
		}
	}
}

func TestAccessData(t *testing.T) {
	long := bytes.Repeat([]byte("x"), maxPassword+1)
	for _, c := range []struct {
		name string
		data map[string][]byte
		want bool
	}{
		{"complete", map[string][]byte{"username": []byte("desktop"), "password": []byte("p")}, true},
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

func TestNamedBy(t *testing.T) {
	spec := &v1alpha1.TemplateSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}},
		Secrets:          []v1alpha1.SecretUse{{Name: "b"}, {Name: "c"}},
	}
	got := NamedBy(spec)
	if len(got) != 3 || got[0] != "a" || got[1] != "b" || got[2] != "c" {
		t.Errorf("got %v", got)
	}
}
