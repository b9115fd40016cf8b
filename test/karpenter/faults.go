package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// faultsKey is the ConfigMap of the faults. Each key of its data is the name of a NodePool, and
// each value the faults of that NodePool as JSON. Without the ConfigMap or the key there are
// none.
var faultsKey = types.NamespacedName{Namespace: "kube-system", Name: "karpenter-faults"}

// faults are the faults of one NodePool. They apply to what happens while they are set, and, but
// for InsufficientCapacity, end for existing instances too when they are removed.
type faults struct {
	// InsufficientCapacity is the message of the InsufficientCapacityError with which every
	// launch fails; "" for none.
	InsufficientCapacity string `json:"insufficientCapacity,omitempty"`
	// Registration is added to the time from the launch of an instance until its node exists.
	Registration delay `json:"registration,omitzero"`
	// Devices is the time from the creation of a node until it has its extended resources, such
	// as GPUs.
	Devices delay `json:"devices,omitzero"`
	// StartupTaints is the time from the creation of a node until its startup taints are removed.
	StartupTaints delay `json:"startupTaints,omitzero"`
}

// parseFaults returns the faults of a NodePool. It rejects unknown fields, so that no test passes
// because of a misspelled fault.
func parseFaults(data map[string]string, nodePool string) (faults, error) {
	var parsed faults
	raw, ok := data[nodePool]
	if !ok {
		return parsed, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil {
		return faults{}, fmt.Errorf("faults of NodePool %s: %w", nodePool, err)
	}
	return parsed, nil
}

// faultReader reads faults from the ConfigMap.
type faultReader struct {
	kube client.Reader
}

func (r faultReader) of(ctx context.Context, nodePool string) (faults, error) {
	var config corev1.ConfigMap
	if err := r.kube.Get(ctx, faultsKey, &config); err != nil {
		if apierrors.IsNotFound(err) {
			return faults{}, nil
		}
		return faults{}, fmt.Errorf("reading faults: %w", err)
	}
	return parseFaults(config.Data, nodePool)
}

// never is a delay without an end.
const never delay = math.MaxInt64

// delay is how long a step of a node's start takes: in JSON a duration such as "30s", or "never".
type delay time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *delay) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*d = never
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if parsed < 0 {
		return fmt.Errorf("the delay %s is negative", parsed)
	}
	*d = delay(parsed)
	return nil
}

// plus returns the sum of two delays, which is never if one of them is.
func (d delay) plus(other delay) delay {
	if d == never || other == never {
		return never
	}
	return d + other
}

// left returns how long a delay that began at start still lasts; never if it has no end, and 0
// or less if it is over.
func (d delay) left(start, now time.Time) delay {
	if d == never {
		return never
	}
	return delay(start.Add(time.Duration(d)).Sub(now))
}
