package elastic

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// specTimeout is far more than a spec takes on a busy machine.
const specTimeout = 10 * time.Minute

const namespace = "desktops"

// The members, each in a region of its name.
const (
	eu = "eu-west"
	us = "us-east"
	ap = "ap-south"
)

var (
	fleet *harness.Fleet
	hub   client.Client
)

func TestElastic(t *testing.T) {
	if err := harness.HasKarpenter(); err != nil {
		t.Skip(err)
	}
	specs.Run(t, "Members that add nodes for sessions")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	Expect(v1alpha1.AddToScheme(clientgoscheme.Scheme)).To(Succeed())
	ctrl.SetLogger(logr.Discard())
})

// start starts a fleet for a spec.
func start(ctx context.Context, members ...harness.MemberSpec) {
	GinkgoHelper()
	startWith(ctx, nil, members...)
}

// startWith starts a fleet for a spec, whose agents have these flags too.
func startWith(ctx context.Context, agentArgs []string, members ...harness.MemberSpec) {
	GinkgoHelper()
	var err error
	// The fleet outlives this node's context.
	fleet, err = harness.Start(context.WithoutCancel(ctx), harness.Options{
		MemberSpecs: members, Namespaces: []string{namespace}, KeepRunning: true,
		HubReplicas: 1, Args: harness.Args{Hub: []string{"--leader-elect=false"}, Agents: agentArgs, Env: append(harness.SpareCPU(), harness.DetectMutations)},
		Progress: func(step string) { GinkgoWriter.Println(step) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			dump(ctx)
		}
		Expect(fleet.Stop()).To(Succeed())
	})
	cfg := *fleet.Hub.ControlPlane.Config
	cfg.QPS, cfg.Burst = 1000, 2000
	hub, err = client.New(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(fleet.WaitMembersReady(ctx)).To(Succeed())
}

// growing returns a member without nodes, whose NodePools add them.
func growing(name string, pools ...karpenter.NodePool) harness.MemberSpec {
	return harness.MemberSpec{Name: name, Region: name, Zone: name + "-a", Karpenter: &karpenter.Options{NodePools: pools}}
}

// pool returns a NodePool of nodes with 16 cores.
func pool(name string) karpenter.NodePool {
	return karpenter.NodePool{Name: name, InstanceTypes: []string{"standard-16"}}
}

// declare sets the node groups of a member.
func declare(ctx context.Context, member string, groups ...v1alpha1.NodeGroup) {
	GinkgoHelper()
	m := &v1alpha1.MemberCluster{}
	Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
	before := client.MergeFrom(m.DeepCopy())
	m.Spec.NodeGroups = groups
	Expect(hub.Patch(ctx, m, before)).To(Succeed())
}

// template creates a template whose sessions request so many cores.
func template(ctx context.Context, name, cores string) {
	GinkgoHelper()
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Image, t.Spec.Port = "desktops.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("256Mi")}
	Expect(hub.Create(ctx, t)).To(Succeed())
}

// createAll creates so many sessions of a template at once.
func createAll(ctx context.Context, count int, name, template string) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range count {
		s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)}}
		s.Spec.User, s.Spec.Template = s.Name+"@example.com", template
		group.Go(func() error { return hub.Create(ctx, s) })
	}
	Expect(group.Wait()).To(Succeed())
}

// sessions returns those that match.
func sessions(ctx context.Context, match func(*v1alpha1.VDISession) bool) (out []*v1alpha1.VDISession) {
	GinkgoHelper()
	list := &v1alpha1.VDISessionList{}
	Expect(hub.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// counted returns how many sessions match, for Eventually.
func counted(match func(*v1alpha1.VDISession) bool) func(context.Context) int {
	return func(ctx context.Context) int { return len(sessions(ctx, match)) }
}

func running(s *v1alpha1.VDISession) bool { return s.Status.Phase == v1alpha1.PhaseRunning }

// dump adds the state of the fleet to the report of a failed spec.
func dump(ctx context.Context) {
	out, err := fleet.Hub.ControlPlane.Kubectl(ctx, "get", "memberclusters,vdisessions", "-A", "-o", "yaml")
	if lines := strings.Split(out, "\n"); len(lines) > 600 {
		out = strings.Join(lines[:600], "\n") + "\n..."
	}
	AddReportEntry("what the hub has", fmt.Sprintf("%s %v", out, err))
	for _, m := range fleet.Members {
		out, err := m.ControlPlane.Kubectl(ctx, "get", "nodes,pods,sessionassignments", "-A", "-o", "wide")
		AddReportEntry("what "+m.Name+" has", fmt.Sprintf("%s %v", out, err))
	}
	for _, p := range fleet.Processes() {
		if name := p.LogFile(); strings.Contains(name, "hub-") || strings.Contains(name, "agent") || strings.Contains(name, "karpenter") {
			AddReportEntry(name, p.LogTail())
		}
	}
}
