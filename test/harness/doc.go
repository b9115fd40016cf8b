// Package harness starts and stops fleets of real Kubernetes control planes on one machine:
// a hub and its members, with simulated nodes, the processes of vdi-fleet, and a network
// between them that can be broken. Integration, fault and scale tests use it, and so do
// `make up` and `make demo` through cmd/fleet.
//
// The parts are packages below it, which do not import it and have no notion of a fleet:
//
//	admission          waits until admission policies are in force
//	apply              applies manifests to an API server
//	clusterautoscaler  nodes and status as cluster-autoscaler adds and writes them
//	component          arguments and files of the components of a control plane
//	hubservice         Pods and Service of the hub's replicas
//	karpenter          NodePools of an autoscaler, and the faults of its cloud
//	kubeconfig         credentials of the users of a cluster
//	kubelet            simulated kubelets
//	kwok               simulated nodes
//	pki                certificates
//	probe              readiness of processes
//	provisioner        volumes
//	proxy              the network between hub and agents
//	router             what DNS and load balancers are to browsers
//	scrape             metrics of hub and agents
//	spawn              child processes that end with this one
//	wallclock          the clock of one process
//	workdir            the directory of a fleet, its ports and reaper
//
// # Use
//
// A test of one rule or controller takes a single control plane:
//
//	cp, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
//		APIOnly: true,                          // etcd and kube-apiserver, for CEL
//		CRDDirs: []string{root + "/deploy/charts/vdi-hub/files/crds"}, // root from harness.Root()
//	})
//	defer cp.Stop()
//	client.New(cp.Config, ...)                  // the administrator
//	cp.ConfigFor("alice", "desktop-users")      // another user
//
// A test of the whole takes a fleet, from BeforeSuite, and stops it in AfterSuite:
//
//	fleet, err := harness.Start(ctx, harness.Options{TimeFactor: 0.1})
//	fleet.Hub.ControlPlane.Config, fleet.Member("eu-west").ControlPlane.Config
//	fleet.Members[0].Agent.Kill(); fleet.Members[0].Agent.Start()
//	fleet.Members[0].ControlPlane.APIServer.Pause()
//	fleet.Members[0].Proxy.Cut(proxy.CutBlackhole)
//	fleet.Members[0].ControlPlane.LoseNode(ctx, node); RestoreNode brings it back
//	fleet.Hub.Leader(ctx).Kill()
//	fleet.WaitMembersReady(ctx)
//
// A test that runs hub or agent in its own process sets NoFleetProcesses.
//
// The image of a Pod, or an annotation, selects how it behaves: see kwok/pods.yaml. Images:
//
//	slow.invalid/          starts slowly
//	broken.invalid/        its image can't be pulled
//	badname.invalid/       its image has an invalid name
//	config-error.invalid/  its container names a Secret that does not exist
//	crash.invalid/         ends soon after each start, six times
//	oom.invalid/           the same, out of memory, and never ready
//	evicted.invalid/       is ready, and evicted 2 s later
//	loopback.invalid/      is ready at 127.0.0.1, where the test runs its desktop
//
// With Options.Kubelets the package kubelet runs the Pods of the members, as real kubelets
// would, and logs what ran to Fleet.ContainerLogs, which test/observer checks:
//
//	fleet.Members[0].PowerOff(); fleet.Members[0].PowerOn(ctx)
//	fleet.Members[0].ControlPlane.PowerOffNodes() // and PowerOnNodes
//
// With MemberSpec.Karpenter, or ControlPlaneOptions.Karpenter, a real Karpenter with its KWOK
// provider adds nodes for pending Pods, and removes them. The command is test/karpenter, which
// make karpenter builds; KWOK makes its nodes Ready as it does those of Nodes:
//
//	MemberSpec{..., Karpenter: &karpenter.Options{NodePools: []karpenter.NodePool{{Name: "desktops"}}}}
//	cp.Karpenter.NodePools.SetFaults(ctx, "desktops", karpenter.Faults{InsufficientCapacity: "no capacity in eu-west-a"})
//	cp.Karpenter.Kill(); cp.Karpenter.Start(); cp.Karpenter.WaitReady(ctx)
//
// With MemberSpec.ClusterAutoscaler, or ControlPlaneOptions.ClusterAutoscaler, a loop in this process
// does the same as cluster-autoscaler would, and writes its status:
//
//	MemberSpec{..., ClusterAutoscaler: &clusterautoscaler.Options{Groups: []clusterautoscaler.Group{{Name: "asg-1", MaxSize: 5}}}}
//	cp.ClusterAutoscaler.SetFault("asg-1", clusterautoscaler.Fault{ErrorCode: "QUOTA_EXCEEDED", ErrorMessage: "…"})
//	cp.ClusterAutoscaler.Kill(); cp.ClusterAutoscaler.Resume()
//
// CountWrites counts the writes to a control plane, by user, from its audit log. Hub,
// console and agents are HubUser, ConsoleUser and AgentUser there.
//
// The hub's replicas have Pods in its API server (hubpods.go), Ready as their processes
// report, and each process gets its Pod's name. Agents reach the one whose Pod is a ready
// endpoint of the Service vdi-hub: the one that has labeled itself as the leader. A
// replica's user agent ends in its Pod's name.
//
// # Invariants
//
//   - Nothing is left behind, however the process that started it ends: children end with
//     it by Pdeathsig (spawn), and a reaper removes the directory (workdir). There are no
//     signal handlers. A detached fleet is the exception, which `make down` ends.
//   - Fleets are isolated: ports are reserved across processes (workdir), and each API
//     server has a CA of its own.
//   - A process keeps its arguments, ports and data when it is killed and started again.
//   - Faults come from outside: signals and a TCP proxy, never a call into the code under
//     test.
//   - A process that ends at its start fails the start at once, with the end of its log.
package harness
