package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// tokens are the join tokens: Secrets that kubectl vdi join creates.
type tokens struct {
	options *Options
	// swept is when expired ones were last deleted.
	swept time.Time
}

// grant is what a token is good for.
type grant struct {
	secret *corev1.Secret
	// Member that it is bound to.
	member    string
	memberUID types.UID
}

// invalid is why a token is not valid. Only the hub's log has more than
// that, by the name of its Secret.
func (g grant) invalid(reason, why string, args ...any) error {
	return refuse(reason, link.ErrToken, "secret %s: %s", g.secret.Name, fmt.Sprintf(why, args...))
}

// checkToken reads what a token is good for from its Secret, for the holder of
// the key with that hash, or returns why it is not valid.
func checkToken(secret *corev1.Secret, token, keyHash string, now time.Time) (grant, error) {
	g := grant{
		secret:    secret,
		member:    string(secret.Data[v1alpha1.JoinTokenMember]),
		memberUID: types.UID(secret.Data[v1alpha1.JoinTokenMemberUID]),
	}
	sum := v1alpha1.JoinTokenSum(token)
	expires, err := time.Parse(time.RFC3339, string(secret.Data[v1alpha1.JoinTokenExpires]))
	if last := secret.CreationTimestamp.Add(v1alpha1.JoinTokenLifetime); err == nil && expires.After(last) {
		expires = last
	}
	usedBy := string(secret.Data[v1alpha1.JoinTokenUsedBy])
	switch {
	case secret.Type != v1alpha1.JoinTokenType:
		return g, g.invalid(refusedTokenUnknown, "it is not of type %s", v1alpha1.JoinTokenType)
	case subtle.ConstantTimeCompare([]byte(sum), secret.Data[v1alpha1.JoinTokenHash]) != 1:
		return g, g.invalid(refusedTokenUnknown, "it is of another token")
	case err != nil:
		return g, g.invalid(refusedTokenExpired, "%s is no time", v1alpha1.JoinTokenExpires)
	case !now.Before(expires):
		return g, g.invalid(refusedTokenExpired, "it expired at %s", expires.UTC().Format(time.RFC3339))
	case !secret.DeletionTimestamp.IsZero():
		return g, g.invalid(refusedTokenExpired, "it is being deleted")
	case usedBy != "" && usedBy != keyHash:
		return g, g.invalid(refusedTokenUsed, "it was used with another key")
	case g.member == "" || g.memberUID == "":
		return g, g.invalid(refusedTokenMember, "it names no member")
	}
	return g, nil
}

// redeem finds what a token is good for, as it stands.
func (t *tokens) redeem(ctx context.Context, who applicant) (grant, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: t.options.Namespace, Name: v1alpha1.JoinTokenPrefix + who.tokenID}
	err := t.options.Live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return grant{}, refuse(refusedTokenUnknown, link.ErrToken, "there is no Secret %s", key.Name)
	case err != nil:
		return grant{}, fmt.Errorf("reading the token: %w", err)
	}
	return checkToken(secret, who.token, who.keyHash, t.options.Now())
}

// bind makes it durable that the token serves that key alone. It is a conflict if
// another agent was faster.
func (t *tokens) bind(ctx context.Context, g grant, keyHash string) error {
	if string(g.secret.Data[v1alpha1.JoinTokenUsedBy]) == keyHash {
		return nil
	}
	secret := g.secret.DeepCopy()
	secret.Data[v1alpha1.JoinTokenUsedBy] = []byte(keyHash)
	err := t.options.Client.Update(ctx, secret)
	if apierrors.IsNotFound(err) {
		return g.invalid(refusedTokenExpired, "it was deleted")
	}
	if err != nil {
		return fmt.Errorf("marking the token as used: %w", err)
	}
	return nil
}

const (
	// tokensKept is how long a token's Secret is kept after its expiry, for those
	// who wonder why it does not work.
	tokensKept = 24 * time.Hour
	// sweepEvery so often tokens are looked through.
	sweepEvery = time.Hour
)

// sweep deletes the Secrets of tokens that expired long ago.
func (t *tokens) sweep(ctx context.Context) error {
	now := t.options.Now()
	if !t.swept.IsZero() && now.Sub(t.swept) < sweepEvery {
		return nil
	}
	// No token is valid for longer than its lifetime, whatever its Secret has.
	err := t.delete(ctx, func(secret *corev1.Secret) bool {
		return now.Sub(secret.CreationTimestamp.Time) > v1alpha1.JoinTokenLifetime+tokensKept
	})
	if err == nil {
		t.swept = now
	}
	return err
}

func (t *tokens) delete(ctx context.Context, which func(*corev1.Secret) bool) error {
	list := &corev1.SecretList{}
	err := t.options.Live.List(ctx, list, client.InNamespace(t.options.Namespace),
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
		err := t.options.Client.Delete(ctx, secret, client.Preconditions{UID: ptr.To(secret.UID)})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting join token %s: %w", secret.Name, err))
		}
	}
	return errors.Join(errs...)
}
