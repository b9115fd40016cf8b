package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vdi-fleet/vdi-fleet/test/harness/component"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// Karpenter is the process of bin/karpenter that adds nodes to one cluster.
type Karpenter struct {
	*Process
	// NodePools are its NodePools, with the faults of their clouds.
	NodePools *karpenter.NodePools

	options   karpenter.Options
	probeAddr string
}

// HasKarpenter returns an error that names the make target if bin/karpenter is missing. Tests
// that need it skip then: make build does not build it.
func HasKarpenter() error {
	_, err := binary("karpenter")
	return err
}

// karpenter returns the options of the member's Karpenter, nil if there is none.
func (spec MemberSpec) karpenter() *karpenter.Options {
	if spec.Karpenter == nil {
		return nil
	}
	options := *spec.Karpenter
	if options.Region == "" {
		options.Region = spec.Region
	}
	return &options
}

// newKarpenter returns the Karpenter of a control plane, not yet started; nil unless
// ControlPlaneOptions.Karpenter.
func newKarpenter(cp *ControlPlane) (*Karpenter, error) {
	if cp.options.Karpenter == nil {
		return nil, nil
	}
	if cp.options.APIOnly || cp.options.NoScheduling {
		return nil, errors.New("karpenter: in a control plane without a scheduler")
	}
	options, err := cp.options.Karpenter.WithDefaults(cp.Name)
	if err != nil {
		return nil, err
	}
	ports, err := workdir.ReservePorts(cp.options.fleetDir, 2)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := cp.WriteKubeconfig(cp.Name, component.Karpenter)
	if err != nil {
		return nil, err
	}
	env, err := options.Environment(cp.Dir, kubeconfig, karpenter.Ports{Metrics: ports[0], Probe: ports[1]})
	if err != nil {
		return nil, err
	}
	process, err := cp.process("karpenter", nil)
	if err != nil {
		return nil, err
	}
	process.Spec.Env = append(process.Spec.Env, env...)
	return &Karpenter{
		Process: process, NodePools: karpenter.New(cp.Applier), options: options, probeAddr: localhost(ports[1]),
	}, nil
}

// installCRDs installs the CRDs that bin/karpenter prints, those of the version that it is
// built from.
func (k *Karpenter) installCRDs(ctx context.Context, cp *ControlPlane) error {
	if k == nil {
		return nil
	}
	path, err := binary("karpenter")
	if err != nil {
		return err
	}
	crds, err := exec.CommandContext(ctx, path, "crds").Output()
	if err != nil {
		return fmt.Errorf("printing the CRDs of Karpenter: %w", err)
	}
	dir := filepath.Join(cp.Dir, "karpenter-crds")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("storing the CRDs of Karpenter: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crds.yaml"), crds, 0o644); err != nil {
		return fmt.Errorf("storing the CRDs of Karpenter: %w", err)
	}
	return cp.InstallCRDs(ctx, dir)
}

// startFirst creates the NodePools, starts Karpenter, and returns when it adds nodes.
func (k *Karpenter) startFirst(ctx context.Context) error {
	if k == nil {
		return nil
	}
	for _, pool := range k.options.NodePools {
		if err := k.NodePools.Apply(ctx, pool); err != nil {
			return err
		}
	}
	if err := k.Start(); err != nil {
		return err
	}
	if err := k.WaitReady(ctx); err != nil {
		return err
	}
	for _, pool := range k.options.NodePools {
		if err := k.NodePools.WaitReady(ctx, pool.Name); err != nil {
			return errors.Join(err, diedUnexpectedly(k.Process))
		}
	}
	return nil
}

// WaitReady waits until Karpenter's /readyz succeeds. It fails at once when Karpenter ends.
func (k *Karpenter) WaitReady(ctx context.Context) error {
	return k.WaitUntil(ctx, func(ctx context.Context) error { return probe.Ready(ctx, k.probeAddr) })
}

// process returns the process of Karpenter, nil if there is none.
func (k *Karpenter) process() *Process {
	if k == nil {
		return nil
	}
	return k.Process
}
