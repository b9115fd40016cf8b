package identity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters/status,verbs=update

// prepare reads the CA, or creates the first one. Later calls do nothing.
func (c *ca) prepare(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() != nil {
		return nil
	}
	var first pki.Issuer
	stored, made, err := c.secretOnce(ctx, func() (pki.State, error) {
		now := c.options.Now()
		var err error
		if first, err = newCA(now); err != nil {
			return pki.State{}, fmt.Errorf("creating the hub's CA: %w", err)
		}
		return pki.NewState(first, now), nil
	})
	if err != nil {
		return err
	}
	if made {
		log.FromContext(ctx).Info("Created the hub's CA: members that were enrolled with another CA must join again",
			"secret", client.ObjectKeyFromObject(stored), "caHash", first.Hash())
	}
	return c.adoptSecret(stored)
}

// secretOnce reads the Secret, or stores a state if there is none.
func (c *ca) secretOnce(ctx context.Context, state func() (pki.State, error)) (stored *corev1.Secret, made bool, err error) {
	key := client.ObjectKey{Namespace: c.options.Namespace, Name: v1alpha1.AuthoritySecret}
	return secret.Once(ctx, c.options.Live, c.options.Client, key, "the hub's CA", func() (map[string][]byte, error) {
		s, err := state()
		if err != nil {
			return nil, err
		}
		return s.Data()
	})
}

func (c *ca) adoptSecret(secret *corev1.Secret) error {
	state, err := pki.ReadState(secret.Data)
	if err != nil {
		return fmt.Errorf(
			"secret %s/%s of the hub's CA can't be read and is not replaced: %w; "+
				"restore it from a backup, or delete it, restart the hub and have every member join again",
			secret.Namespace, secret.Name, err)
	}
	if err := c.adopt(state); err != nil {
		return err
	}
	c.secret = secret.ResourceVersion
	return nil
}

// saveState writes the state under optimistic lock, and adopts it.
func (c *ca) saveState(ctx context.Context, secret *corev1.Secret, state pki.State) error {
	data, err := state.Data()
	if err != nil {
		return err
	}
	secret = secret.DeepCopy()
	secret.Data = data
	if state.Stage == pki.StageDistributing {
		delete(secret.Annotations, v1alpha1.AnnotationRotateCA)
	}
	if err := c.options.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("storing the hub's CA: %w", err)
	}
	return c.adoptSecret(secret)
}
