package nodegroup

import (
	"testing"
	"time"
)

// autoscaled is a scene of a group of cluster-autoscaler with one node, which has requested so many in all.
func autoscaled(target int32) *scene {
	s := newScene(declared(func(s *Spec) { s.ClusterAutoscalerGroup, s.MaxNodes = "asg-1", nil }))
	s.SetNode(machine("a"))
	s.request(target)
	s.group()
	return s
}

// request sets how many nodes cluster-autoscaler has requested, in a status that does not get old.
func (s *scene) request(target int32) {
	s.SetAutoscaler(&AutoscalerStatus{Written: s.now.Add(time.Hour), Groups: map[string]AutoscalerGroup{"asg-1": {Target: target, Most: 9}}})
}

func TestRequestedNodesThatDoNotRegister(t *testing.T) {
	s := autoscaled(3)
	expectState(t, "for 5 minutes they may come", s.after(5*time.Minute-time.Second), "Available 1+2, 6 more", "")
	expectState(t, "then they do not count", s.after(time.Second), "Exhausted 1+0, 0 more, ProvisioningTimeout", "no node that was requested has registered within 5m0s")
	s.request(4)
	expectState(t, "one more changes nothing", s.after(time.Second), "Exhausted 1+0, 0 more, ProvisioningTimeout", "")
	s.request(1)
	expectState(t, "once cluster-autoscaler has given them up, it may add others", s.after(time.Second), "Available 1+0, 8 more", "")
	s.request(2)
	expectState(t, "which have their whole time", s.after(5*time.Minute-time.Second), "Available 1+1, 7 more", "")
}

func TestRequestedNodesRegisterOneByOne(t *testing.T) {
	s := autoscaled(3)
	s.after(4 * time.Minute)
	s.SetNode(machine("b"))
	expectState(t, "one has come", s.after(time.Second), "Available 2+1, 6 more", "")
	expectState(t, "the other has its whole time", s.after(4*time.Minute), "Available 2+1, 6 more", "")
	expectState(t, "and then", s.after(time.Minute), "Exhausted 2+0, 0 more, ProvisioningTimeout", "")
	s.SetNode(machine("c"))
	expectState(t, "it comes late", s.after(time.Second), "Available 3+0, 6 more", "")
}
