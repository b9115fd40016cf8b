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

// grant is the member that a token is for.
type grant struct {
	secret    *corev1.Secret
	member    string
	memberUID types.UID
}

// invalid returns the refusal of a token, which names its Secret in the hub's log.
func (g grant) invalid(reason, why string, args ...any) error {
	return refuse(reason, link.ErrToken, "secret %s: %s", g.secret.Name, fmt.Sprintf(why, args...))
}

// checkToken returns the grant of a token from its Secret, for a key with a hash, or a
// refusal.
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

// redeem reads the Secret of a token, and checks the token.
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

// bind durably binds the token to a key. It returns a conflict if another writer was
// first.
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
	// tokensKept is how long a token's Secret is kept after its expiry, so that logs of
	// its use name the reason.
	tokensKept = 24 * time.Hour
	// sweepEvery is how often expired tokens are deleted.
	sweepEvery = time.Hour
)

// sweep deletes the Secrets of tokens that expired long ago.
func (t *tokens) sweep(ctx context.Context) error {
	now := t.options.Now()
	if !t.swept.IsZero() && now.Sub(t.swept) < sweepEvery {
		return nil
	}
	// No token is valid for longer than JoinTokenLifetime.
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
