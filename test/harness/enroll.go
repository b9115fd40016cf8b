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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// With Options.Enroll the hub is its own certificate authority, and the agents join it as in
// an installation: with a token, and the hash of the hub's CA.

// bootstrap creates the Secret that an agent joins with, as the command of `kubectl vdi join`
// does: a new join token, and the hub's address and hash.
func bootstrap(ctx context.Context, hub *ControlPlane, member *Member) error {
	secret, err := BootstrapSecret(ctx, hub, member.Name, member.UID, member.proxyAddr)
	if err != nil {
		return err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	if err != nil {
		return fmt.Errorf("converting the Secret that %s joins with: %w", member.Name, err)
	}
	return member.ControlPlane.ApplyObject(ctx, &unstructured.Unstructured{Object: object})
}

// BootstrapSecret returns the Secret that the agent of a MemberCluster with that name and UID
// joins the hub with, at that address.
func BootstrapSecret(ctx context.Context, hub *ControlPlane, name, uid, address string) (*corev1.Secret, error) {
	hash, err := hubCAHash(ctx, hub)
	if err != nil {
		return nil, err
	}
	token, err := joinToken(ctx, hub, name, uid)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: v1alpha1.AgentBootstrap},
		Data: map[string][]byte{
			v1alpha1.BootstrapMember:     []byte(name),
			v1alpha1.BootstrapHub:        []byte(address),
			v1alpha1.BootstrapServerName: []byte("localhost"),
			v1alpha1.BootstrapCAHash:     []byte(hash),
			v1alpha1.BootstrapToken:      []byte(token),
		},
	}, nil
}

// joinToken creates a one-use token for a MemberCluster.
func joinToken(ctx context.Context, hub *ControlPlane, name, uid string) (string, error) {
	id := strings.ToLower(rand.Text()[:10])
	token := id + "." + rand.Text() + rand.Text()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SystemNamespace, Name: v1alpha1.JoinTokenPrefix + id,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: name, UID: types.UID(uid),
			}},
		},
		Type: v1alpha1.JoinTokenType,
		StringData: map[string]string{
			v1alpha1.JoinTokenMember:    name,
			v1alpha1.JoinTokenMemberUID: uid,
			v1alpha1.JoinTokenHash:      v1alpha1.JoinTokenSum(token),
			v1alpha1.JoinTokenExpires:   time.Now().Add(v1alpha1.JoinTokenLifetime).UTC().Format(time.RFC3339),
		},
	}
	if _, err := hub.Client.CoreV1().Secrets(SystemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("making a join token for %s: %w", name, err)
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
