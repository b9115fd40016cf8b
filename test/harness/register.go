package harness

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

var memberClusters = schema.GroupVersionResource{Group: "vdi.kasm.io", Version: "v1alpha1", Resource: "memberclusters"}

// register creates the MemberClusters on the hub.
func (f *Fleet) register(ctx context.Context) error {
	for _, member := range f.Members {
		cluster := apply.Object("vdi.kasm.io/v1alpha1", "MemberCluster", "", member.Name, member.Spec.Labels)
		cluster.Object["spec"] = map[string]any{
			"region":        member.Spec.Region,
			"zone":          member.Spec.Zone,
			"ingressDomain": member.Spec.IngressDomain,
			"scheduling":    "Active",
		}
		if member.Spec.Door {
			spec := cluster.Object["spec"].(map[string]any)
			spec["ingressScheme"], spec["ingressPort"] = "http", int64(f.options.Console.Port)
		}
		if err := f.Hub.ControlPlane.ApplyObject(ctx, cluster); err != nil {
			return err
		}
		current, err := f.Hub.ControlPlane.Dynamic.Resource(memberClusters).Get(ctx, member.Name, getOptions)
		if err != nil {
			return fmt.Errorf("registering %s: %w", member.Name, err)
		}
		member.UID = string(current.GetUID())
	}
	return nil
}

// WaitMembersReady waits until every member is Ready. It fails at once when a hub or an agent
// has ended.
func (f *Fleet) WaitMembersReady(ctx context.Context) error {
	for _, member := range f.Members {
		if err := f.waitReady(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) waitReady(ctx context.Context, member *Member) error {
	err := poll(ctx, func(ctx context.Context) error {
		if err := diedUnexpectedly(f.Processes()...); err != nil {
			return err
		}
		current, err := f.Hub.ControlPlane.Dynamic.Resource(memberClusters).Get(ctx, member.Name, getOptions)
		if err != nil {
			return err
		}
		if apply.ConditionStatus(current, "Ready") != "True" {
			return fmt.Errorf("its status is %v", current.Object["status"])
		}
		return nil
	})
	var died *ProcessDiedError
	switch {
	case err == nil:
		f.options.Progress(member.Name + ": Ready")
		return nil
	case errors.As(err, &died):
		return err
	}
	message := fmt.Sprintf("waiting for %s to be Ready", member.Name)
	for _, process := range append(member.agentProcesses(), f.Hub.processes()...) {
		message += fmt.Sprintf("\nthe end of %s:\n%s", process.LogFile(), process.LogTail())
	}
	return fmt.Errorf("%w; %s", err, message)
}

func (h *Hub) processes() []*Process {
	var all []*Process
	for _, replica := range h.Replicas {
		all = append(all, replica.Process)
	}
	return all
}
