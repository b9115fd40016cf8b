package guard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
)

// SecretName is the Secret with the key that signs the agent's answers.
const SecretName = "vdi-agent-guard"

const seedKey = "seed"

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,resourceNames=vdi-agent-guard,verbs=get
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=create

// loadKey reads the key, or creates it once: running guards have its public key.
func loadKey(ctx context.Context, store objects.Store) (ed25519.PrivateKey, error) {
	for attempt := 0; ; attempt++ {
		var secret corev1.Secret
		if err := store.Read(ctx, SecretName, &secret); err != nil {
			return nil, fmt.Errorf("reading the key for guards: %w", err)
		}
		if secret.ResourceVersion != "" {
			seed := secret.Data[seedKey]
			if len(seed) != ed25519.SeedSize {
				return nil, fmt.Errorf("secret %s has no key of %d bytes under %q: delete it, which recreates the desktops that have guards",
					SecretName, ed25519.SeedSize, seedKey)
			}
			return ed25519.NewKeyFromSeed(seed), nil
		}
		seed := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // It never fails.
		err := store.Write(ctx, SecretName, &corev1.Secret{Data: map[string][]byte{seedKey: seed}})
		if err != nil && (!apierrors.IsAlreadyExists(err) || attempt > 0) {
			return nil, fmt.Errorf("storing the key for guards: %w", err)
		}
	}
}
