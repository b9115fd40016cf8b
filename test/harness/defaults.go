package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/clusterautoscaler"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
)

// IngressClass is the default IngressClass of every control plane, except with APIOnly.
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

// clusterAutoscaler returns the options of the member's cluster-autoscaler, nil if there is none.
func (spec MemberSpec) clusterAutoscaler() *clusterautoscaler.Options {
	if spec.ClusterAutoscaler == nil {
		return nil
	}
	options := spec.ClusterAutoscaler.In(spec.Region, spec.Zone)
	return &options
}

// startClusterAutoscaler starts the simulated cluster-autoscaler, if ControlPlaneOptions.ClusterAutoscaler.
func startClusterAutoscaler(ctx context.Context, cp *ControlPlane) error {
	if cp.options.ClusterAutoscaler == nil {
		return nil
	}
	if cp.options.APIOnly || cp.options.NoScheduling {
		return errors.New("cluster-autoscaler: in a control plane without a scheduler")
	}
	options, err := cp.options.ClusterAutoscaler.WithDefaults()
	if err != nil {
		return err
	}
	config, err := cp.ConfigFor(clusterautoscaler.User, "system:masters")
	if err != nil {
		return err
	}
	cp.ClusterAutoscaler, err = clusterautoscaler.Start(ctx, config, options)
	return err
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

// SpareCPU returns environment variables that let a process spend memory, of which the
// machine has enough, to save CPU: otherwise a busy API server spends a sixth of its time on
// garbage collection. All components of a control plane get them; hub and agents, which are
// measured, only by Options.Env.
func SpareCPU() []string { return []string{"GOGC=400", "GOMEMLIMIT=640MiB"} }

// DetectMutations is the environment variable with which a process panics when an object of a
// client-go cache was changed in place: hub and agents read some of them without a copy.
const DetectMutations = "KUBE_CACHE_MUTATION_DETECTOR=true"

// spareCPU is SpareCPU for a component. An API server with thousands of sessions would spend half
// of its time on garbage collection to stay below that limit.
func spareCPU(component string) []string {
	if component == "kube-apiserver" {
		return []string{"GOGC=400", "GOMEMLIMIT=13GiB"}
	}
	return SpareCPU()
}
