package identity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// SecretName is the Secret with an agent's identity, in its own namespace.
const SecretName = "vdi-agent-identity"

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,resourceNames=vdi-agent-identity;vdi-agent-bootstrap,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,namespace=vdi-system,resources=events,verbs=create;patch

// store stores the state in a Secret. It is for one goroutine at a time.
type store struct {
	objects.Store
	// version of the Secret when it was last read or written, and empty without one. A
	// write requires that version: two agents must not mix their keys.
	version string
}

// load reads the state, and reports whether it could. The error may be about a part that was
// omitted.
func (s *store) load(ctx context.Context, now reading) (state, bool, error) {
	secret := &corev1.Secret{}
	if err := s.Read(ctx, SecretName, secret); err != nil {
		return state{}, false, fmt.Errorf("reading the agent's identity: %w", err)
	}
	s.version = secret.ResourceVersion
	loaded, err := decode(secret.Data, now)
	if err != nil {
		err = fmt.Errorf("secret %s: %w", SecretName, err)
	}
	return loaded, true, err
}

// save writes the state. It recreates a Secret that was deleted.
func (s *store) save(ctx context.Context, what state) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.version}, Data: what.encode()}
	if err := s.Write(ctx, SecretName, secret); err != nil {
		return fmt.Errorf("storing the agent's identity: %w", err)
	}
	s.version = secret.ResourceVersion
	return nil
}

// bootstrap has the token and hashes to join with.
type bootstrap struct {
	token string
	pins  []string
	// secret has the token; nil if a file has it.
	secret *corev1.Secret
}

// deleteToken deletes a used token from the Secret.
func (s *store) deleteToken(ctx context.Context, b bootstrap) error {
	if b.secret == nil {
		return nil
	}
	delete(b.secret.Data, v1alpha1.BootstrapToken)
	if err := s.Client.Update(ctx, b.secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the join token: %w", err)
	}
	return nil
}
