package kindfleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// The console, as browsers reach it at a port of the hub's nodes.
const (
	ConsoleHost = "vdi.desktops.test"
	consolePort = 30444
)

// ConsoleURL is the address of the console.
var ConsoleURL = "https://" + ConsoleHost + ":" + strconv.Itoa(consolePort)

// User is the user of the console, and Login the name and the password that the user logs in with.
const (
	User  = "alice@example.com"
	Login = "alice"
	users = "users:\n- {login: alice, name: alice@example.com, passwordHash: $2a$04$snbpxiaBQj34JJWgFCgtcOefabn8Zhav6LnMIxJ5f4thi0xckVIsu}\n"
)

// consoleValues returns the hub chart's values of the console.
func consoleValues() map[string]any {
	return map[string]any{
		"enabled": true, "url": ConsoleURL,
		"users": map[string]any{"secretName": "vdi-console-users"}, "tls": map[string]any{"secretName": "vdi-console-tls"},
	}
}

// prepareConsole creates what the console's installation needs: its user with a role, a certificate, and a port of the
// nodes.
func (f *Fleet) prepareConsole(ctx context.Context) error {
	certificate, key, err := selfSigned(ConsoleHost)
	if err != nil {
		return err
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: SystemNamespace, Name: name} }
	tls := &corev1.Secret{ObjectMeta: meta("vdi-console-tls")}
	login := &corev1.Secret{ObjectMeta: meta("vdi-console-users")}
	service := &corev1.Service{ObjectMeta: meta("vdi-console-nodes")}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: Desktops, Name: "vdi-user-of-the-console"}}
	ensure := func(o client.Object, set func()) error {
		_, err := controllerutil.CreateOrUpdate(ctx, f.Hub.Client, o, func() error { set(); return nil })
		return err
	}
	return errors.Join(
		ensure(tls, func() {
			tls.Type = corev1.SecretTypeTLS
			if len(tls.Data) == 0 { // the console keeps the one that it has
				tls.Data = map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
			}
		}),
		ensure(login, func() { login.Data = map[string][]byte{"users.yaml": []byte(users)} }),
		ensure(service, func() {
			service.Spec.Type = corev1.ServiceTypeNodePort
			service.Spec.Selector = map[string]string{"app.kubernetes.io/name": "vdi-console"}
			service.Spec.Ports = []corev1.ServicePort{{Name: "pages", Port: 443, TargetPort: intstr.FromString("pages"), NodePort: consolePort}}
		}),
		ensure(binding, func() {
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vdi-user"}
			binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}
		}))
}

// selfSigned returns a certificate of a host and its key (PEM).
func selfSigned(host string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	stored, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: stored}), nil
}
