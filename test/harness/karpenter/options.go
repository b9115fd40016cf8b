package karpenter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options configure the Karpenter of one cluster.
type Options struct {
	// NodePools to create, each with a KWOKNodeClass of its name.
	NodePools []NodePool
	// Region of the nodes; by default that of the member.
	Region string
	// Zones of the nodes; default REGION-a, REGION-b and REGION-c. With several zones
	// Karpenter chooses one at random.
	Zones []string
	// InstanceTypes that the cloud offers; default DefaultInstanceTypes.
	InstanceTypes []InstanceType
	// InstanceTypesFile is a file in Karpenter's format that replaces InstanceTypes.
	InstanceTypesFile string
	// Env is appended to the environment of the process.
	Env []string
}

// NodePool is a NodePool and its KWOKNodeClass.
type NodePool struct {
	Name string
	// Limits bound the sum of the capacity of its nodes; the resource "nodes" bounds their
	// number, which Karpenter does not enforce within one batch of Pods. Default none.
	Limits corev1.ResourceList
	// Labels of its nodes.
	Labels map[string]string
	Taints []corev1.Taint
	// StartupTaints are removed from a node once it is registered, as a DaemonSet would; see
	// Faults.StartupTaints.
	StartupTaints []corev1.Taint
	// InstanceTypes are the names of those that it may use; default all.
	InstanceTypes []string
	// RegistrationDelay is the time from the launch of an instance until its node exists, in
	// whole seconds; default none.
	RegistrationDelay time.Duration
	// ConsolidateAfter is the time after which empty nodes are removed, in whole seconds;
	// default never.
	ConsolidateAfter time.Duration
}

// InstanceType is a type of instance for linux on amd64, with an offering in each zone. Its
// nodes have 100m of CPU and 10 MiB of memory less allocatable than its resources.
type InstanceType struct {
	Name string
	// Resources may include extended resources, such as nvidia.com/gpu. The resource pods
	// defaults to 110.
	Resources corev1.ResourceList
	// Price orders the types: Karpenter chooses the cheapest that fits.
	Price float64
}

// DefaultInstanceTypes returns one type of the size of kwok.DefaultAllocatable, and one with
// four GPUs besides, at several times its price.
func DefaultInstanceTypes() []InstanceType {
	resources := func(gpus int64) corev1.ResourceList {
		list := corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("16"),
			corev1.ResourceMemory:           resource.MustParse("64Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             resource.MustParse("110"),
		}
		if gpus > 0 {
			list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
		}
		return list
	}
	return []InstanceType{
		{Name: "standard-16", Resources: resources(0), Price: 1},
		{Name: "gpu-16", Resources: resources(4), Price: 5},
	}
}

// WithDefaults returns the options with defaults for a member of a region. It rejects options
// with which Karpenter would not start, or would not do what they say.
func (o Options) WithDefaults(region string) (Options, error) {
	if o.Region == "" {
		o.Region = region
	}
	if o.Zones == nil {
		o.Zones = []string{o.Region + "-a", o.Region + "-b", o.Region + "-c"}
	}
	if o.InstanceTypes == nil {
		o.InstanceTypes = DefaultInstanceTypes()
	}
	if o.Region == "" {
		return o, errors.New("karpenter: no region")
	}
	names := map[string]bool{}
	for _, pool := range o.NodePools {
		if pool.Name == "" || names[pool.Name] {
			return o, fmt.Errorf("karpenter: NodePool %q has no name of its own", pool.Name)
		}
		names[pool.Name] = true
		for _, delay := range []time.Duration{pool.RegistrationDelay, pool.ConsolidateAfter} {
			if delay < 0 || delay%time.Second != 0 {
				return o, fmt.Errorf("karpenter: NodePool %s: %s is not in whole seconds", pool.Name, delay)
			}
		}
	}
	return o, nil
}

// Ports are the ports that Karpenter listens on, on all addresses.
type Ports struct{ Metrics, Probe int }

// Environment returns the environment of the process. It stores in dir what the process reads
// besides.
//
// Leader election is off, since a killed process would keep its lease, and batches are short, so
// that tests do not take seconds for each of them.
func (o Options) Environment(dir, kubeconfig string, ports Ports) ([]string, error) {
	types := o.InstanceTypesFile
	if types == "" {
		types = filepath.Join(dir, "instance-types.json")
		raw, err := o.instanceTypes()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(types, raw, 0o644); err != nil {
			return nil, fmt.Errorf("writing instance types: %w", err)
		}
	}
	return append([]string{
		"KUBECONFIG=" + kubeconfig,
		"DISABLE_LEADER_ELECTION=true",
		"METRICS_PORT=" + strconv.Itoa(ports.Metrics),
		"HEALTH_PROBE_PORT=" + strconv.Itoa(ports.Probe),
		"INSTANCE_TYPES_FILE_PATH=" + types,
		"BATCH_IDLE_DURATION=200ms",
		"BATCH_MAX_DURATION=2s",
		"DISABLE_CLUSTER_STATE_OBSERVABILITY=true",
		"LOG_LEVEL=error",
	}, o.Env...), nil
}
