package secret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Once returns a Secret of the hub that is made once: as the API server has it, which
// live reads or, where it has none, with the data that create returns. A Secret that
// another process stored meanwhile is used: nothing is ever written over one that is
// there. made reports whether this call stored it; what names its content in errors.
func Once(ctx context.Context, live client.Reader, c client.Client, key types.NamespacedName, what string, create func() (map[string][]byte, error)) (secret *corev1.Secret, made bool, err error) {
	read := func() (*corev1.Secret, error) {
		there := &corev1.Secret{}
		if err := live.Get(ctx, key, there); err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		return there, nil
	}
	if secret, err = read(); !apierrors.IsNotFound(err) {
		return secret, false, err
	}
	data, err := create()
	if err != nil {
		return nil, false, err
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	}
	switch err = c.Create(ctx, secret); {
	case apierrors.IsAlreadyExists(err):
		secret, err = read()
		return secret, false, err
	case err != nil:
		return nil, false, fmt.Errorf("storing %s: %w", what, err)
	}
	return secret, true, nil
}
