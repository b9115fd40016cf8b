// Package harness starts and stops fleets of real Kubernetes control planes on
// one machine: a hub and its members, with simulated nodes, the processes of
// vdi-fleet, and a network between them that can be broken. Integration, fault
// and scale tests live on it, and so do `make up` and `make demo` through
// cmd/fleet.
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
//	cp.ConfigFor("alice", "desktop-users")      // somebody else
//
// A test of the whole takes a fleet, from BeforeSuite, and stops it in
// AfterSuite:
//
//	fleet, err := harness.Start(ctx, harness.Options{TimeFactor: 0.1})
//	fleet.Hub.ControlPlane.Config, fleet.Member("eu-west").ControlPlane.Config
//	fleet.Members[0].Agent.Kill(); fleet.Members[0].Agent.Start()
//	fleet.Members[0].ControlPlane.APIServer.Pause()
//	fleet.Members[0].Proxy.Cut(harness.CutBlackhole)
//	fleet.Members[0].ControlPlane.LoseNode(ctx, node); RestoreNode brings it back
//	fleet.Hub.Leader(ctx).Kill()
//	fleet.WaitMembersReady(ctx)
//
// A test that runs hub or agent in its own process says NoFleetProcesses.
//
// How a Pod fares is chosen by its image or by an annotation: kwok/pods.yaml says
// all of it. By image:
//
//	slow.invalid/          starts slowly
//	broken.invalid/        its image can't be pulled
//	badname.invalid/       its image's name is none
//	config-error.invalid/  its container names a Secret that is not there
//	crash.invalid/         ends soon after each start, six times
//	oom.invalid/           the same, out of memory, and never ready
//	evicted.invalid/       is ready, and evicted 2 s later
//	loopback.invalid/      is ready at 127.0.0.1, where the test runs its desktop
//
// With Options.Kubelets the members' Pods are played by the package kubelet, as real
// kubelets would, and what ran is in Fleet.ContainerLogs, which test/observer
// judges:
//
//	fleet.Members[0].PowerOff(); fleet.Members[0].PowerOn(ctx)
//	fleet.Members[0].ControlPlane.PowerOffNodes() // and PowerOnNodes
//
// What a control plane was asked to write, and by whom, is in its audit log: see
// CountWrites. Hub and agents are the users vdi-hub and vdi-agent there.
//
// The hub's replicas have Pods in its API server (hubpods.go), Ready as their
// processes say, and each process is told its Pod's name. Agents reach the one
// whose Pod is a ready endpoint of the Service vdi-hub: the one that has labelled
// itself as the leader. A replica's user agent ends in its Pod's name.
//
// # Invariants
//
//   - Nothing is left behind, whatever ends the process that started it: children
//     die with it by Pdeathsig (spawn), and a reaper removes the directory
//     (reaper.go). There are no signal handlers. A detached fleet is the
//     exception that `make down` ends.
//   - Fleets do not meet: ports are reserved across processes (ports.go), and
//     each API server has a CA of its own.
//   - A process keeps its arguments, ports and data when it is killed and started
//     again.
//   - Faults come from outside: signals and a TCP proxy, never a call into the
//     code under test.
//   - A process that dies at start fails the start at once, with its log's end.
package harness
