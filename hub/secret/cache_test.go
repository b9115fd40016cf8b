package secret

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

func TestCacheOmitsLargeSecrets(t *testing.T) {
	secret := func(kind string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelSecret: kind}}, Data: data}
	}
	bulk := []byte(strings.Repeat("x", 1<<20))
	login := map[string][]byte{"username": []byte("ann"), "password": []byte("chosen")}
	for _, tc := range []struct {
		name   string
		secret *corev1.Secret
		keys   int
		size   int
	}{
		{"access, as the hub makes it", secret(v1alpha1.SecretAccess, login), 2, 0},
		{"access, with something beside", secret(v1alpha1.SecretAccess, map[string][]byte{"username": login["username"], "password": login["password"], "bulk": bulk}), 2, 0},
		{"access, with a password that is too long", secret(v1alpha1.SecretAccess, map[string][]byte{"username": login["username"], "password": bulk}), 0, 0},
		{"of the console, with its private keys", secret(v1alpha1.SecretConsoleKeys, map[string][]byte{"ring.json": bulk[:1], v1alpha1.ConsolePublicKeys: bulk[:1]}), 1, 0},
		{"to distribute", secret(v1alpha1.SecretDistribute, map[string][]byte{"key": bulk[:100<<10]}), 1, 0},
		{"to distribute, and too large", secret(v1alpha1.SecretDistribute, map[string][]byte{"key": bulk}), 0, 3 + 1<<20},
	} {
		trimCached(tc.secret)
		if len(tc.secret.Data) != tc.keys || trim.Omitted(tc.secret) != tc.size {
			t.Errorf("%s: %d keys are kept of %d bytes", tc.name, len(tc.secret.Data), trim.Omitted(tc.secret))
		}
	}
	huge := secret(v1alpha1.SecretAccess, login)
	huge.Annotations = map[string]string{"x": string(bulk), v1alpha1.AnnotationRun: "1.2"}
	trimCached(huge)
	if diff := cmp.Diff(map[string]string{v1alpha1.AnnotationRun: "1.2"}, huge.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestCacheSelectsSecrets(t *testing.T) {
	const access = "vdi.kasm.io/secret in (access)"
	own, both := "vdi.kasm.io/secret in (console-keys,distribute)", "vdi.kasm.io/secret in (access,console-keys,distribute)"
	for _, tc := range []struct {
		name   string
		served []string
		want   map[string]string
	}{
		{"all namespaces", nil, map[string]string{cache.AllNamespaces: access, "vdi-system": both}},
		{"some namespaces", []string{"a", "b"}, map[string]string{"a": access, "b": access, "vdi-system": own}},
		{"its own among them", []string{"a", "vdi-system"}, map[string]string{"a": access, "vdi-system": both}},
	} {
		got := map[string]string{}
		for namespace, config := range Cached("vdi-system", tc.served).Namespaces {
			got[namespace] = config.LabelSelector.String()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if hasLabel("access").Matches(labels.Set{v1alpha1.LabelSecret: "mine"}) {
			t.Error("any value of the label will do")
		}
	}
}
