package guard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// SecretName is the Secret with the key that signs the agent's answers.
const SecretName = "vdi-agent-guard"

const seedKey = "seed"

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,resourceNames=vdi-agent-guard,verbs=get
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=create

// loadKey reads the key, or creates it once: running guards have its public key.
func loadKey(ctx context.Context, live client.Reader, writer client.Client, namespace string) (ed25519.PrivateKey, error) {
	for attempt := 0; ; attempt++ {
		var secret corev1.Secret
		err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: SecretName}, &secret)
		if err == nil {
			seed := secret.Data[seedKey]
			if len(seed) != ed25519.SeedSize {
				return nil, fmt.Errorf("secret %s has no key of %d bytes under %q: delete it, which recreates the desktops that have guards",
					SecretName, ed25519.SeedSize, seedKey)
			}
			return ed25519.NewKeyFromSeed(seed), nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the key for guards: %w", err)
		}
		err = createKey(ctx, writer, namespace)
		if err != nil && (!apierrors.IsAlreadyExists(err) || attempt > 0) {
			return nil, fmt.Errorf("storing the key for guards: %w", err)
		}
	}
}

func createKey(ctx context.Context, writer client.Client, namespace string) error {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // It never fails.
	return writer.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: SecretName,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Data: map[string][]byte{seedKey: seed},
	})
}
