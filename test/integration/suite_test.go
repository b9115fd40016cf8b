package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// timeFactor scales the link's timings: a member without a heartbeat is Suspect after 3 s and
// Unreachable after 8 s.
const timeFactor = 0.2

// replicated is the member whose agent has two replicas, as the chart ships them.
const replicated = "ap-south"

// behindDoor is the member whose desktops browsers reach through a door.
const behindDoor = "ap-south"

// failAfter is how long agents wait for a desktop that can't start.
const failAfter = 3 * time.Second

// second is a namespace beside the harness's default.
const (
	namespace = "desktops"
	second    = "desktops-two"
	// shut is a namespace of the hub that no member has admitted.
	shut = "not-admitted"
)

var (
	fleet *harness.Fleet
	hub   client.Client
	// spans receives the spans of sessions from hub and agents.
	spans *collector
)

func TestIntegration(t *testing.T) {
	specs.Run(t, "A fleet of a hub and three members")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	Expect(v1alpha1.AddToScheme(clientgoscheme.Scheme)).To(Succeed())

	var err error
	spans, err = startCollector()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(spans.stop)
	// The fleet outlives this node's context.
	options := harness.Options{
		NodesPerMember: 4, TimeFactor: timeFactor, KeepRunning: true, Namespaces: []string{namespace, second}, HubNamespaces: []string{shut},
		// What can't start fails permanently after seconds.
		Args: harness.Args{
			Agents:  []string{"--fail-after=" + failAfter.String()},
			Members: map[string][]string{restricted: restrictions},
			Env:     slices.Concat(harness.SpareCPU(), []string{harness.DetectMutations}, traced(spans)),
		},
		Standbys: map[string]int{replicated: 1}, Console: harness.ConsoleOptions{Replicas: 2},
		Progress: func(step string) { GinkgoWriter.Println(step) },
	}
	Expect(options.AddDoor(behindDoor)).To(Succeed())
	fleet, err = harness.Start(context.Background(), options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(fleet.Stop()).To(Succeed()) })
	DeferCleanup(checkPermissions) // before the fleet stops
	hub = clientOf(fleet.Hub.ControlPlane)
	seen = watchStory()

	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"templates.yaml", "broken-image.yaml"} {
		Expect(fleet.Hub.ControlPlane.ApplyFile(ctx, filepath.Join(root, "deploy/samples", file))).To(Succeed())
	}
	Expect(deleteNow(ctx, "grace-broken")).To(Succeed())
	storage(ctx)
}, NodeTimeout(5*time.Minute))

// After every spec both sides must agree: no member runs anything that the hub has no record of,
// and no session has two Pods.
var _ = AfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		dump(ctx)
		return
	}
	Eventually(ctx, func(ctx context.Context) error { return agreement(ctx) }).Should(Succeed())
}, NodeTimeout(90*time.Second))

func clientOf(cp *harness.ControlPlane) client.Client {
	cfg := *cp.Config
	cfg.QPS, cfg.Burst = 500, 1000
	c, err := client.New(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

func memberNamed(name string) *harness.Member {
	for _, m := range fleet.Members {
		if m.Name == name {
			return m
		}
	}
	Fail(fmt.Sprintf("the fleet has no member %q", name))
	return nil
}
