package harness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness/clusterautoscaler"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// SystemNamespace is the namespace of hub and agents.
const SystemNamespace = "vdi-system"

// AdmitSessionsLabel on a namespace of a member admits sessions to it.
const AdmitSessionsLabel = "vdi.kasm.io/admit-sessions"

// startTimeout bounds Start when its context has no deadline.
const startTimeout = 3 * time.Minute

// Options configure a fleet. The zero value is a hub with two replicas
// and three members of 20 nodes each, in three regions, in a temporary directory
// that is removed by Stop, or when this process ends.
type Options struct {
	// Members is how many members there are, with the names and regions of
	// DefaultMembers; default 3. Unused if MemberSpecs is set.
	Members int
	// NodesPerMember is the number of nodes of each member; default 20.
	NodesPerMember int
	// GPUNodes is how many nodes with four GPUs the second member has in addition; default 2,
	// -1 for none.
	GPUNodes int
	// MemberSpecs replaces the default members.
	MemberSpecs []MemberSpec

	// Namespaces may hold sessions: created on the hub and the members, where
	// they carry AdmitSessionsLabel. Default "desktops".
	Namespaces []string
	// HubNamespaces hold sessions on the hub too, and no member admits them.
	HubNamespaces []string
	// HubReplicas is the number of processes of the hub; default 2.
	HubReplicas int
	// Console runs processes of the console; by default there are none.
	Console ConsoleOptions
	// TimeFactor scales all timings of hub and agents; default 1.
	TimeFactor float64
	// Enroll makes the hub its own certificate authority, and the agents join it
	// with a token; otherwise both get certificates of the harness's LinkPKI.
	Enroll bool
	// Args are appended to the flags and environment of the processes.
	Args Args
	// Standbys are the additional replicas of the agents of single members, by the member's
	// name; the chart ships one replica. Not in a detached fleet.
	Standbys map[string]int
	// Kubelets runs the Pods of the members by test/harness/kubelet, with probes, guards,
	// grace and a log of what ran, instead of KWOK's stages for Pods.
	Kubelets bool
	// NoFleetProcesses starts the control planes and proxies, but neither hub
	// nor agents.
	NoFleetProcesses bool
	// KeepRunning starts hub, agents, kube-schedulers and Karpenters again that end by
	// themselves, as a kubelet would.
	KeepRunning bool
	// NoWait makes Start return before the members are Ready.
	NoWait bool

	// HubFirst runs the control planes with a lower CPU priority than hub and agents, for
	// measurements of how long these take: in production they do not share a node's cores.
	HubFirst bool

	// Dir holds all files; default a new temporary directory.
	Dir string
	// Keep keeps the directory, with all logs, at the end.
	Keep bool
	// Progress is called at each step.
	Progress func(step string)
}

// Args are appended to the flags that the harness sets.
type Args struct {
	Hub     []string
	Agents  []string
	Console []string
	// Members are the flags of the agents of single members, by the member's name, after
	// Agents.
	Members  map[string][]string
	Kubelets []string
	// Env is the environment of hub, agents and consoles.
	Env []string
}

// ConsoleOptions configure the console of a fleet.
type ConsoleOptions struct {
	// Replicas is the number of processes.
	Replicas int
	// Port of this machine at which browsers reach them; by default any.
	Port int
	// Doors gives every member a door: see MemberSpec.Door.
	Doors bool
}

// MemberSpec is one member of a fleet.
type MemberSpec struct {
	Name   string
	Region string
	Zone   string
	// IngressDomain defaults to NAME.desktops.example.com, as in deploy/samples.
	IngressDomain string
	// Door runs a process of the member's door, to which browsers get at the hosts of its desktops. It needs a
	// console. The IngressDomain is NAME.vdi.localhost then, by default.
	Door bool
	// Labels of its MemberCluster.
	Labels map[string]string
	Nodes  []kwok.NodeGroup
	// Karpenter runs an autoscaler in the member that adds nodes for pending Pods, besides
	// Nodes; bin/karpenter is from make karpenter.
	Karpenter *karpenter.Options
	// ClusterAutoscaler simulates cluster-autoscaler in the member. Its groups' nodes are in the member's
	// region and zone by default. Not in a detached fleet.
	ClusterAutoscaler *clusterautoscaler.Options
}

var memberNames = []string{"eu-west", "us-east", "ap-south"}

// DefaultMembers returns count members named eu-west, us-east, ap-south, member-4 and
// so on, each in a region of its name, with its nodes over the zones a, b and c.
func DefaultMembers(count, nodesPerMember int) []MemberSpec {
	members := make([]MemberSpec, 0, count)
	for i := range count {
		name := fmt.Sprintf("member-%d", i+1)
		if i < len(memberNames) {
			name = memberNames[i]
		}
		members = append(members, MemberSpec{
			Name: name, Region: name, Zone: name + "-a", Nodes: overZones(name, nodesPerMember),
		})
	}
	return members
}

func overZones(region string, count int) []kwok.NodeGroup {
	var groups []kwok.NodeGroup
	for i, zone := range []string{"a", "b", "c"} {
		// The remainder of the division by three goes to the first zones.
		if inZone := (count + 2 - i) / 3; inZone > 0 {
			groups = append(groups, kwok.NodeGroup{Count: inZone, Region: region, Zone: region + "-" + zone})
		}
	}
	return groups
}

func (o Options) withDefaults(detached bool) (Options, error) {
	o.setMembers()
	if o.HubReplicas == 0 {
		o.HubReplicas = 2
	}
	if o.TimeFactor == 0 {
		o.TimeFactor = 1
	}
	if o.Namespaces == nil {
		o.Namespaces = []string{"desktops"}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.MemberSpecs = slices.Clone(o.MemberSpecs)
	if err := o.completeMembers(); err != nil {
		return o, err
	}
	if detached {
		if len(o.Standbys) > 0 {
			return o, errors.New("standbys in a fleet that outlives this process")
		}
		if slices.ContainsFunc(o.MemberSpecs, func(spec MemberSpec) bool { return spec.ClusterAutoscaler != nil }) {
			return o, errors.New("a simulated cluster-autoscaler in a fleet that outlives this process")
		}
		return o, nil
	}
	return o, errors.Join(o.validateStandbys(), o.validateFlags())
}

// setMembers sets the default members, unless MemberSpecs replaces them.
func (o *Options) setMembers() {
	o.Members = cmp.Or(o.Members, 3)
	o.NodesPerMember = cmp.Or(o.NodesPerMember, 20)
	o.GPUNodes = cmp.Or(o.GPUNodes, 2)
	if o.MemberSpecs == nil {
		o.MemberSpecs = DefaultMembers(o.Members, o.NodesPerMember)
		o.addGPUs()
	}
}

// AddNodePool adds a NodePool to the Karpenter of a member, which runs one from the first NodePool on.
// The other options of members must be set before.
func (o *Options) AddNodePool(member string, pool karpenter.NodePool) error {
	o.setMembers()
	i := slices.IndexFunc(o.MemberSpecs, func(spec MemberSpec) bool { return spec.Name == member })
	if i < 0 {
		return fmt.Errorf("NodePool %s of %q, which is no member", pool.Name, member)
	}
	autoscaler := karpenter.Options{}
	if of := o.MemberSpecs[i].Karpenter; of != nil {
		autoscaler = *of
	}
	autoscaler.NodePools = append(slices.Clone(autoscaler.NodePools), pool)
	o.MemberSpecs = slices.Clone(o.MemberSpecs)
	o.MemberSpecs[i].Karpenter = &autoscaler
	return nil
}

// AddDoor gives a member a door. The other options of members must be set before.
func (o *Options) AddDoor(member string) error {
	o.setMembers()
	i := slices.IndexFunc(o.MemberSpecs, func(spec MemberSpec) bool { return spec.Name == member })
	if i < 0 {
		return fmt.Errorf("a door of %q, which is no member", member)
	}
	o.MemberSpecs = slices.Clone(o.MemberSpecs)
	o.MemberSpecs[i].Door = true
	return nil
}

// completeMembers rejects members that share a name, and completes their specs.
func (o Options) completeMembers() error {
	names := map[string]bool{"hub": true}
	for i := range o.MemberSpecs {
		member := &o.MemberSpecs[i]
		if member.Name == "" || names[member.Name] {
			return fmt.Errorf("member %d has no name of its own: %q", i, member.Name)
		}
		names[member.Name] = true
		member.Door = member.Door || o.Console.Doors
		switch {
		case member.Door && o.Console.Replicas == 0:
			return fmt.Errorf("member %s has a door, and the fleet no console", member.Name)
		case member.IngressDomain != "":
		case member.Door:
			member.IngressDomain = member.Name + "." + consoleHost
		default:
			member.IngressDomain = member.Name + ".desktops.example.com"
		}
	}
	return nil
}

// validateStandbys rejects standbys of unknown members.
func (o Options) validateStandbys() error {
	for name := range o.Standbys {
		if !slices.ContainsFunc(o.MemberSpecs, func(spec MemberSpec) bool { return spec.Name == name }) {
			return fmt.Errorf("standbys of %q, which is no member", name)
		}
	}
	return nil
}

func (o Options) addGPUs() {
	if o.GPUNodes < 1 || len(o.MemberSpecs) < 2 {
		return
	}
	member := &o.MemberSpecs[1]
	member.Labels = map[string]string{"gpu": "nvidia"}
	member.Nodes = append(member.Nodes, kwok.NodeGroup{
		Count: o.GPUNodes, Region: member.Region, Zone: member.Zone,
		Prefix: "node-" + member.Zone + "-gpu", Allocatable: kwok.GPUAllocatable(4),
		Labels: map[string]string{"nvidia.com/gpu.present": "true"},
	})
}

// sessionNamespaces returns the namespaces of the hub that may hold sessions.
func (o Options) sessionNamespaces() []string {
	return append(slices.Clone(o.Namespaces), o.HubNamespaces...)
}

func (spec MemberSpec) nodeCount() int {
	count := 0
	for _, group := range spec.Nodes {
		count += group.Count
	}
	return count
}
