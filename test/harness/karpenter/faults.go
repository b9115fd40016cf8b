package karpenter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Faults are the faults of one NodePool's cloud. The zero value has none. All but
// InsufficientCapacity apply to existing instances too, and end for them when they are removed.
//
// bin/karpenter reads them from the ConfigMap karpenter-faults in kube-system, each NodePool's as
// JSON at the key of its name.
type Faults struct {
	// InsufficientCapacity is the message of the InsufficientCapacityError with which each
	// launch of an instance fails; "" for none.
	InsufficientCapacity string
	// Registration is added to the RegistrationDelay of the NodePool.
	Registration Delay
	// Devices is the time from the creation of a node until it has its extended resources, such
	// as GPUs; by default it has them at once.
	Devices Delay
	// StartupTaints is the time from the creation of a node until its startup taints are
	// removed; by default they are as soon as Karpenter has registered the node.
	StartupTaints Delay
}

// Delay is how long a step of a node's start takes.
type Delay time.Duration

// Never is the Delay of a step that does not happen.
const Never Delay = -1

// String returns the delay in the format of the ConfigMap.
func (d Delay) String() string {
	if d < 0 {
		return "never"
	}
	return time.Duration(d).String()
}

// faultsData returns the data of the ConfigMap.
func faultsData(faults map[string]Faults) (map[string]any, error) {
	data := map[string]any{}
	for _, pool := range slices.Sorted(maps.Keys(faults)) {
		f := faults[pool]
		raw, err := json.Marshal(map[string]string{
			"insufficientCapacity": f.InsufficientCapacity,
			"registration":         f.Registration.String(),
			"devices":              f.Devices.String(),
			"startupTaints":        f.StartupTaints.String(),
		})
		if err != nil {
			return nil, fmt.Errorf("encoding the faults of NodePool %s: %w", pool, err)
		}
		data[pool] = string(raw)
	}
	return data, nil
}
