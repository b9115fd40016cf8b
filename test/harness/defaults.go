package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
)

// IngressClass is the default of every whole control plane.
const IngressClass = "nginx"

var getOptions = metav1.GetOptions{}

const defaults = provisioner.Manifest + `---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata:
  name: ` + IngressClass + `
  annotations: {ingressclass.kubernetes.io/is-default-class: "true"}
spec:
  controller: vdi-fleet.test/ingress
`

func (cp *ControlPlane) startProvisioner(ctx context.Context) error {
	config, err := cp.ConfigFor(provisioner.User)
	if err != nil {
		return err
	}
	cp.provisioner, err = provisioner.Start(ctx, config)
	return err
}

// restartProvisioner replaces the provisioner, whose watches back off for half a minute
// after a long outage of the API server.
func (cp *ControlPlane) restartProvisioner(ctx context.Context) error {
	if cp.provisioner == nil {
		return nil
	}
	cp.provisioner.Stop()
	return cp.startProvisioner(ctx)
}

// EnsureNamespace creates the namespace or adds the labels to it.
func (cp *ControlPlane) EnsureNamespace(ctx context.Context, name string, labels map[string]string) error {
	return cp.ApplyObject(ctx, object("v1", "Namespace", "", name, labels))
}

// Kubectl runs bin/kubectl as the administrator and returns what it prints.
func (cp *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := binary("kubectl")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + cp.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+cp.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// writePKI makes the files that the API server is started with.
func (cp *ControlPlane) writePKI() error {
	dir := filepath.Join(cp.Dir, "pki")
	if _, _, err := cp.CA.Write(dir, "ca"); err != nil {
		return err
	}
	for name, request := range map[string]pki.CertRequest{
		"apiserver": {
			CommonName: "kube-apiserver",
			DNSNames:   []string{"localhost", "kubernetes", "kubernetes.default.svc"},
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		},
		"service-account": {CommonName: "service-account"},
	} {
		pair, err := cp.CA.Issue(request)
		if err != nil {
			return err
		}
		if _, _, err := pair.Write(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
