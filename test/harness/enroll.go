package harness

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

// With Options.Enroll the hub is its own certificate authority, and the agents join it as in
// an installation: with a token, and the hash of the hub's CA.

// bootstrap creates the Secret that an agent joins with, as the command of `kubectl vdi join`
// does: a new join token, and the hub's address and hash.
func bootstrap(ctx context.Context, hub *ControlPlane, member *Member) error {
	hash, err := hubCAHash(ctx, hub)
	if err != nil {
		return err
	}
	token, err := joinToken(ctx, hub, member)
	if err != nil {
		return err
	}
	secret := apply.Object("v1", "Secret", SystemNamespace, v1alpha1.AgentBootstrap, nil)
	secret.Object["stringData"] = map[string]any{
		v1alpha1.BootstrapMember:     member.Name,
		v1alpha1.BootstrapHub:        member.proxyAddr,
		v1alpha1.BootstrapServerName: "localhost",
		v1alpha1.BootstrapCAHash:     hash,
		v1alpha1.BootstrapToken:      token,
	}
	return member.ControlPlane.ApplyObject(ctx, secret)
}

// joinToken creates a one-use token for the member's MemberCluster, as it is now.
func joinToken(ctx context.Context, hub *ControlPlane, member *Member) (string, error) {
	id := strings.ToLower(rand.Text()[:10])
	token := id + "." + rand.Text() + rand.Text()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SystemNamespace, Name: v1alpha1.JoinTokenPrefix + id,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: member.Name, UID: types.UID(member.UID),
			}},
		},
		Type: v1alpha1.JoinTokenType,
		StringData: map[string]string{
			v1alpha1.JoinTokenMember:    member.Name,
			v1alpha1.JoinTokenMemberUID: member.UID,
			v1alpha1.JoinTokenHash:      v1alpha1.JoinTokenSum(token),
			v1alpha1.JoinTokenExpires:   time.Now().Add(v1alpha1.JoinTokenLifetime).UTC().Format(time.RFC3339),
		},
	}
	if _, err := hub.Client.CoreV1().Secrets(SystemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("making a join token for %s: %w", member.Name, err)
	}
	return token, nil
}

// hubCAHash returns the hash of the hub's own CA, by which an agent verifies the hub.
func hubCAHash(ctx context.Context, hub *ControlPlane) (string, error) {
	secret, err := hub.Client.CoreV1().Secrets(SystemNamespace).Get(ctx, v1alpha1.AuthoritySecret, getOptions)
	if err != nil {
		return "", fmt.Errorf("reading the hub's CA: %w", err)
	}
	block, _ := pem.Decode(secret.Data[v1alpha1.AuthorityCertificate])
	if block == nil {
		return "", errors.New("reading the hub's CA: its Secret holds no certificate")
	}
	return v1alpha1.CertificateHash(block.Bytes), nil
}
