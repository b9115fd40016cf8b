package identity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters/status,verbs=patch

// prepare reads the CA, or makes the first one where there is none. Later calls do
// nothing.
func (c *ca) prepare(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() != nil {
		return nil
	}
	secret, err := c.readSecret(ctx)
	if apierrors.IsNotFound(err) {
		secret, err = c.firstSecret(ctx)
	}
	if err != nil {
		return err
	}
	return c.adoptSecret(secret)
}

func (c *ca) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.options.Namespace, Name: v1alpha1.AuthoritySecret}
	if err := c.options.Live.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading the hub's CA: %w", err)
	}
	return secret, nil
}

// firstSecret makes the first CA.
func (c *ca) firstSecret(ctx context.Context) (*corev1.Secret, error) {
	now := c.options.Now()
	first, err := newCA(now)
	if err != nil {
		return nil, fmt.Errorf("making the hub's CA: %w", err)
	}
	secret, err := c.createSecret(ctx, pki.NewState(first, now))
	if err == nil {
		log.FromContext(ctx).Info("Made the hub's CA: members that were enrolled with another CA must join again",
			"secret", client.ObjectKeyFromObject(secret), "caHash", first.Hash())
	}
	return secret, err
}

// createSecret stores a state where there is none. A CA that another process stored
// meanwhile is used: nothing is ever written over a CA that is there.
func (c *ca) createSecret(ctx context.Context, state pki.State) (*corev1.Secret, error) {
	data, err := state.Data()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.options.Namespace, Name: v1alpha1.AuthoritySecret,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	}
	switch err := c.options.Client.Create(ctx, secret); {
	case apierrors.IsAlreadyExists(err):
		return c.readSecret(ctx)
	case err != nil:
		return nil, fmt.Errorf("storing the hub's CA: %w", err)
	}
	return secret, nil
}

func (c *ca) adoptSecret(secret *corev1.Secret) error {
	state, err := pki.ReadState(secret.Data)
	if err != nil {
		return fmt.Errorf(
			"secret %s/%s of the hub's CA can't be used and is not touched: %w; "+
				"restore it from a backup, or delete it, restart the hub and have every member join again",
			secret.Namespace, secret.Name, err)
	}
	if err := c.adopt(state); err != nil {
		return err
	}
	c.secret = secret.ResourceVersion
	return nil
}

// saveState writes the state unless the Secret was written since it was read, and
// adopts it.
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
