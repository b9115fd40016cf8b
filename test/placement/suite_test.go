package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// timeFactor scales the link's timings: a member without heartbeats is Suspect after
// 7.5 s, and a session whose Pod has no node is moved after 5 s. The 30 s after which a
// pending session is rechecked anyway are not scaled.
const timeFactor = 0.5

// byEvent limits the time from an event until a pending session is placed: far
// less than the 30 s.
const byEvent = 12 * time.Second

// specTimeout is far more than a spec takes on a busy machine.
const specTimeout = 5 * time.Minute

// The members, each in a region of its name.
const (
	eu = "eu-west"
	us = "us-east"
	ap = "ap-south"
)

// The namespaces of the sessions.
const (
	teamA = "team-a"
	teamB = "team-b"
	teamC = "team-c"
)

var namespaces = []string{teamA, teamB, teamC}

// others is a namespace of the members that the fleet does not use.
const others = "others"

// unschedulable labels specs that cause an unschedulable Pod.
const unschedulable = "unschedulable"

var (
	fleet *harness.Fleet
	hub   client.Client
	// clients of the members, by name.
	clients map[string]client.Client
	seen    *watch
)

func TestPlacement(t *testing.T) {
	specs.Run(t, "Where a fleet puts sessions")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	Expect(v1alpha1.AddToScheme(clientgoscheme.Scheme)).To(Succeed())
	ctrl.SetLogger(logr.Discard())

	var err error
	// The fleet outlives this node's context.
	members := harness.DefaultMembers(3, 0)
	members[1].Labels = map[string]string{"gpu": "nvidia"} // as in deploy/samples/members.yaml
	fleet, err = harness.Start(context.Background(), harness.Options{
		MemberSpecs: members, Namespaces: namespaces, TimeFactor: timeFactor, KeepRunning: true,
		// One replica can't lose its lock to another on a busy machine.
		HubReplicas: 1, Args: harness.Args{Hub: []string{"--leader-elect=false"}, Env: append(harness.SpareCPU(), harness.DetectMutations)},
		Progress: func(step string) { GinkgoWriter.Println(step) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(fleet.Stop()).To(Succeed()) })
	hub, clients = clientOf(fleet.Hub.ControlPlane), map[string]client.Client{}
	for _, m := range fleet.Members {
		clients[m.Name] = clientOf(m.ControlPlane)
		Expect(m.ControlPlane.EnsureNamespace(ctx, others, nil)).To(Succeed())
	}
	seen = watchFleet()
}, NodeTimeout(5*time.Minute))

var _ = BeforeEach(func(ctx SpecContext) {
	Expect(fleet.WaitMembersReady(ctx)).To(Succeed())
	seen.begin()
}, NodeTimeout(3*time.Minute))

// After every spec its sessions are deleted, and no Pod must have been
// unschedulable.
var _ = AfterEach(func(ctx SpecContext) {
	report := CurrentSpecReport()
	if report.Failed() {
		dump(ctx)
	}
	for _, m := range fleet.Members {
		Expect(m.Proxy.Heal()).To(Succeed())
		Expect(m.Agent.Resume()).To(Succeed())
		if !m.ControlPlane.Scheduler.Running() {
			Expect(m.ControlPlane.Scheduler.Start()).To(Succeed())
		}
	}
	endAll(ctx)
	if !report.Failed() && !slices.Contains(report.Labels(), unschedulable) {
		Expect(seen.stuckPods()).To(BeEmpty(), "Pods that kube-scheduler found no node for")
	}
}, NodeTimeout(specTimeout))

func clientOf(cp *harness.ControlPlane) client.Client {
	cfg := *cp.Config
	cfg.QPS, cfg.Burst = 1000, 2000
	c, err := client.New(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// dump adds the state of the fleet to the report of a failed spec.
func dump(ctx context.Context) {
	out, err := fleet.Hub.ControlPlane.Kubectl(ctx, "get", "memberclusters,placementpolicies,vdisessions", "-A", "-o", "wide")
	if lines := strings.Split(out, "\n"); len(lines) > 120 {
		out = strings.Join(lines[:120], "\n") + "\n..."
	}
	AddReportEntry("what the hub has", fmt.Sprintf("%s %v", out, err))
	for _, m := range fleet.Members {
		out, err := m.ControlPlane.Kubectl(ctx, "get", "nodes,pods,sessionassignments", "-A", "-o", "wide")
		AddReportEntry("what "+m.Name+" has", fmt.Sprintf("%s %v", out, err))
	}
	for _, p := range fleet.Processes() {
		if name := p.LogFile(); strings.Contains(name, "hub-") || strings.Contains(name, "agent") {
			AddReportEntry(name, p.LogTail())
		}
	}
}
