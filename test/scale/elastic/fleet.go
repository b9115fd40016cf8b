package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

const (
	namespace = "desktops"
	template  = "browser"
	// group is the name of the NodePool and of the node group of each member.
	group = "desktops"
	// perNode is how many sessions of 2 cores fit on a node of 15.9.
	perNode = 7
	// sessionsPerUser share the user's Role and RoleBinding, as in scale-fleet.
	sessionsPerUser = 3
	// maxNodes of each member is more than the burst needs.
	maxNodes = 200
	timeout  = 10 * time.Minute
)

// Bounds of the burst, beside the time that the cloud takes.
const (
	allRunning   = 70 * time.Second
	spareNodes   = 3
	hubWrites    = 6
	memberWrites = 12
)

// fleet is a fleet whose members have no nodes.
type fleet struct {
	*harness.Fleet
	options options
	hub     client.Client
	// marks are the sizes of the audit logs before the burst, by control plane.
	marks  map[*harness.ControlPlane]int64
	missed []error
}

func start(ctx context.Context, o options) (*fleet, error) {
	if err := harness.HasKarpenter(); err != nil {
		return nil, err
	}
	members := harness.DefaultMembers(o.members, 0)
	for i := range members {
		members[i].Karpenter = &karpenter.Options{NodePools: []karpenter.NodePool{{
			Name: group, InstanceTypes: []string{"standard-16"}, RegistrationDelay: o.delay,
		}}}
	}
	running, err := harness.Start(ctx, harness.Options{
		MemberSpecs: members, Namespaces: []string{namespace}, Keep: o.keep, Args: harness.Args{Env: harness.SpareCPU()},
		Progress: func(step string) { fmt.Println("  " + step) },
	})
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: running, options: o, marks: map[*harness.ControlPlane]int64{}}
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return f, err
	}
	cfg := *running.Hub.ControlPlane.Config
	cfg.QPS, cfg.Burst = 2000, 4000
	if f.hub, err = client.New(&cfg, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return f, fmt.Errorf("making a client: %w", err)
	}
	return f, running.WaitMembersReady(ctx)
}

// shape is that of the NodePools' nodes, as docs/operators.md recommends it. Without it sessions would be
// pending, one write more each, until the first node of their member was launched.
var shape = v1alpha1.NodeShape{Allocatable: map[corev1.ResourceName]v1alpha1.NodeQuantity{
	"cpu": "15900m", "memory": "60Gi", "ephemeral-storage": "500Gi", "pods": "110",
}}

// declare declares the node groups, and creates the template.
func (f *fleet) declare(ctx context.Context) error {
	for _, m := range f.Members {
		mc := &v1alpha1.MemberCluster{}
		if err := f.hub.Get(ctx, client.ObjectKey{Name: m.Name}, mc); err != nil {
			return fmt.Errorf("reading %s: %w", m.Name, err)
		}
		before := client.MergeFrom(mc.DeepCopy())
		mc.Spec.NodeGroups = []v1alpha1.NodeGroup{{Name: group, KarpenterNodePool: group, MaxNodes: ptr.To[int32](maxNodes), Node: shape}}
		if err := f.hub.Patch(ctx, mc, before); err != nil {
			return fmt.Errorf("declaring the node group of %s: %w", m.Name, err)
		}
	}
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: template}}
	t.Spec.Image, t.Spec.Port = "registry.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	if err := f.hub.Create(ctx, t); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	// Until a member has reported that it can add nodes, it would get no session.
	return f.until(ctx, func(ctx context.Context) (string, error) {
		list := &v1alpha1.MemberClusterList{}
		if err := f.hub.List(ctx, list); err != nil {
			return "", err
		}
		for i := range list.Items {
			if m := &list.Items[i]; len(m.Status.NodeGroups) == 0 || len(m.Status.Templates) == 0 || !m.Status.Templates[0].Available {
				return m.Name + " has not reported its node group", nil
			}
		}
		return "", nil
	})
}

// mark records where the audit logs end before the burst.
func (f *fleet) mark(context.Context) (err error) {
	for _, cp := range f.controlPlanes() {
		if f.marks[cp], err = harness.AuditMark(cp.AuditLog()); err != nil {
			return err
		}
	}
	return nil
}

// controlPlanes returns those of the hub and of all members.
func (f *fleet) controlPlanes() []*harness.ControlPlane {
	all := []*harness.ControlPlane{f.Hub.ControlPlane}
	for _, m := range f.Members {
		all = append(all, m.ControlPlane)
	}
	return all
}

// burst creates all sessions at once, and waits until they run.
func (f *fleet) burst(ctx context.Context) error {
	began := time.Now()
	creating, cctx := errgroup.WithContext(ctx)
	creating.SetLimit(32)
	for i := range f.options.sessions {
		s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("elastic-%05d", i)}}
		s.Spec.User, s.Spec.Template = fmt.Sprintf("user-%d@example.com", i/sessionsPerUser), template
		creating.Go(func() error { return f.hub.Create(cctx, s) })
	}
	if err := creating.Wait(); err != nil {
		return fmt.Errorf("creating sessions: %w", err)
	}
	moved := 0
	err := f.until(ctx, func(ctx context.Context) (string, error) {
		list := &v1alpha1.VDISessionList{}
		if err := f.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		running := 0
		moved = 0
		for i := range list.Items {
			if s := &list.Items[i]; s.Status.Phase == v1alpha1.PhaseRunning {
				running++
			}
			if list.Items[i].Status.Epoch > 1 {
				moved++
			}
		}
		if running < f.options.sessions {
			return fmt.Sprintf("%d of %d run", running, f.options.sessions), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n%d sessions in members without nodes, of which the cloud takes %s for each\n", f.options.sessions, f.options.delay)
	f.atMost("all Running, in seconds", time.Since(began).Seconds(), (allRunning + f.options.delay).Seconds())
	f.atMost("sessions that were moved", float64(moved), 0)
	return nil
}

// until polls until a check returns no reason to wait.
func (f *fleet) until(ctx context.Context, check func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		waits, err := check(ctx)
		if err != nil || waits == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %s", timeout, waits)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// atMost prints a figure, and records that it misses its bound.
func (f *fleet) atMost(name string, figure, bound float64) {
	fmt.Printf("  %-40s %8.2f (at most %g)\n", name, figure, bound)
	if figure > bound {
		f.missed = append(f.missed, fmt.Errorf("%s: %.2f, more than %g", name, figure, bound))
	}
}
