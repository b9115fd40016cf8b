package guard

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
)

func TestTheAgentsKeyIsCreatedOnceAndAnUnreadableOneIsReported(t *testing.T) {
	a := newAgent(t, assignment())
	var secret corev1.Secret
	if err := a.client.Get(t.Context(), types.NamespacedName{Namespace: "agents", Name: SecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[seedKey] = []byte("short")
	if err := a.client.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	_, err := loadKey(t.Context(), objects.Store{Live: a.client, Client: a.client, Namespace: "agents"})
	if err == nil || !strings.Contains(err.Error(), SecretName) {
		t.Errorf("error %v", err)
	}
}
