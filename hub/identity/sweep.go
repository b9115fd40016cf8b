package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// tokensKept is how long a token's Secret is kept after its expiry, for those
	// who wonder why it does not work.
	tokensKept = 24 * time.Hour
	// sweepEvery so often tokens are looked through.
	sweepEvery = time.Hour
)

// sweepTokens deletes the Secrets of tokens that expired long ago.
func (a *Authority) sweepTokens(ctx context.Context) error {
	now := a.options.Now()
	if !a.swept.IsZero() && now.Sub(a.swept) < sweepEvery {
		return nil
	}
	// No token is valid for longer than its lifetime, whatever it says.
	err := a.deleteTokens(ctx, func(secret *corev1.Secret) bool {
		return now.Sub(secret.CreationTimestamp.Time) > v1alpha1.JoinTokenLifetime+tokensKept
	})
	if err == nil {
		a.swept = now
	}
	return err
}

func (a *Authority) deleteTokens(ctx context.Context, which func(*corev1.Secret) bool) error {
	list := &corev1.SecretList{}
	err := a.options.Live.List(ctx, list, client.InNamespace(a.options.Namespace),
		client.MatchingFields{"type": string(v1alpha1.JoinTokenType)})
	if err != nil {
		return fmt.Errorf("listing the join tokens: %w", err)
	}
	var errs []error
	for i := range list.Items {
		secret := &list.Items[i]
		if secret.Type != v1alpha1.JoinTokenType || !which(secret) {
			continue
		}
		err := a.options.Client.Delete(ctx, secret, client.Preconditions{UID: ptr.To(secret.UID)})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting join token %s: %w", secret.Name, err))
		}
	}
	return errors.Join(errs...)
}
