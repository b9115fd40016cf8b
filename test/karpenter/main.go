// Command karpenter is Karpenter with its KWOK provider, for members of test/harness that add
// nodes for pending Pods. `karpenter crds` prints the CRDs that it needs and ends.
//
// It differs from the command of the Karpenter module in its provider (provider.go), in who
// creates the nodes (instances.go), and in the faults that can be injected (faults.go).
package main

import (
	"fmt"
	"os"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	run := runOperator
	if len(os.Args) == 2 && os.Args[1] == "crds" {
		run = func() error { return writeCRDs(os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// runOperator runs Karpenter until the process ends. Karpenter panics if it cannot start.
func runOperator() error {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return fmt.Errorf("reading the instance types: %w", err)
	}
	kube := op.GetClient()
	faults := faultReader{kube}
	bare := newProvider(kwok.NewCloudProvider(ctx, withoutNodes{kube}, types), types, faults)
	decorated := overlay.Decorate(bare, kube, op.InstanceTypeStore)
	all := controllers.NewControllers(ctx, op.Manager, op.Clock, kube, op.EventRecorder, decorated, bare,
		state.NewCluster(op.Clock, kube, decorated), op.InstanceTypeStore)
	op.WithControllers(ctx, append(all, &instances{kube: kube, faults: faults, now: op.Clock.Now})...).Start(ctx)
	return nil
}
