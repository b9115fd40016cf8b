package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/deploy"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

// sessionsPerNamespace is how many of the sessions of the burst a namespace has. The API server
// evaluates all RoleBindings of a namespace for each request in it, and there is one for each user.
const sessionsPerNamespace = 5000

// namespaces returns the namespaces of all sessions.
func (o options) namespaces() []string {
	out := make([]string, (o.sessions-1)/sessionsPerNamespace+1)
	for i := range out {
		out[i] = fmt.Sprintf("desktops-%d", i)
	}
	return out
}

// labelStep is the label of sessions with the step that creates them.
const labelStep = "scale-fleet/step"

// regionSize is how many members are in each region.
const regionSize = 10

// fleet is a hub with simulated members.
type fleet struct {
	*harness.Fleet
	options options
	hub     client.WithWatch
	// slowness is how many times slower this machine is than that of the bounds, at least 1.
	slowness float64
	// networks of the regions, each of which the hub sees as one address.
	networks []*proxy.Proxy
	members  []*member
	// opening has a place for each member that opens a connection.
	opening chan struct{}

	// created is the number of sessions in the fleet.
	created      int
	renewals     renewals
	templateSets atomic.Int64
	// memoryLimit is the hub's in bytes, by the chart's size.
	memoryLimit int64

	mu     sync.Mutex
	missed []error
}

// fail records a missed bound, or a failure.
func (f *fleet) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = append(f.missed, fmt.Errorf(format, args...))
}

// atMost prints a figure and records it as missed if it exceeds its bound.
func atMost[T int | int64 | float64 | time.Duration](f *fleet, what string, have, bound T) {
	fmt.Printf("  %-58s %10v (at most %v)\n", what, have, bound)
	if have > bound {
		f.fail("%s: %v, more than %v", what, have, bound)
	}
}

// clientOf returns an administrator's client, in effect without rate limits.
func clientOf(cp *harness.ControlPlane) (client.WithWatch, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	cfg := *cp.Config
	cfg.QPS, cfg.Burst = 2000, 4000
	return client.NewWithWatch(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
}

// start starts the hub and all members, and returns once each is Ready.
func start(ctx context.Context, o options) (*fleet, error) {
	f := &fleet{options: o, opening: make(chan struct{}, openingAtOnce)}
	memory, limit, err := memorySettings(o)
	if err != nil {
		return nil, err
	}
	f.memoryLimit = limit
	fmt.Printf("  memory of the hub, by the chart's size: at most %d MiB, %s\n", limit>>20, strings.Join(memory, ", "))
	f.Fleet, err = harness.Start(ctx, harness.Options{
		MemberSpecs: []harness.MemberSpec{}, Namespaces: o.namespaces(), Enroll: true, Keep: o.keep, HubFirst: true, KeepRunning: true, Args: harness.Args{Env: memory},
		Progress: func(step string) { fmt.Println("  " + step) },
	})
	if err != nil {
		return nil, err
	}
	if f.hub, err = clientOf(f.Hub.ControlPlane); err != nil {
		return f, err
	}
	if f.slowness, err = slownessOf(ctx, f.hub); err != nil {
		return f, err
	}
	for region := range (o.members-1)/regionSize + 1 {
		network, err := proxy.StartTo(fmt.Sprintf("127.1.%d.%d:0", region/250, 1+region%250), f.Hub.Service.Backend)
		if err != nil {
			return f, err
		}
		f.networks = append(f.networks, network)
	}
	if err := errors.Join(f.createTemplates(ctx), f.createKinds(ctx)); err != nil {
		return f, err
	}
	began := time.Now()
	if err := f.createMembers(ctx); err != nil {
		return f, err
	}
	fmt.Printf("  %d members are registered after %s\n", len(f.members), round(time.Since(began)))
	for _, m := range f.members {
		m.start(ctx)
	}
	err = f.awaitReady(ctx)
	fmt.Printf("  all are enrolled and Ready after %s\n", round(time.Since(began)))
	return f, err
}

// memorySettings returns the settings of the Go runtime that the chart gives a hub of this size, and its
// memory limit in bytes.
func memorySettings(o options) (settings []string, limit int64, err error) {
	objects, err := deploy.Render("vdi-hub", harness.SystemNamespace, map[string]any{
		"size": map[string]any{"members": o.members, "sessions": o.sessions}, "sessionNamespaces": o.namespaces(),
	})
	if err != nil {
		return nil, 0, err
	}
	for _, object := range objects {
		deployment := &appsv1.Deployment{}
		if object.GetKind() != "Deployment" || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment) != nil {
			continue
		}
		limit = deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
		for _, e := range deployment.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" || e.Name == "GOGC" {
				settings = append(settings, e.Name+"="+e.Value)
			}
		}
	}
	if limit == 0 || !strings.Contains(strings.Join(settings, " "), "GOMEMLIMIT=") {
		return nil, 0, errors.New("the chart sets no memory limit or no GOMEMLIMIT")
	}
	return settings, limit, nil
}

func (f *fleet) close() error {
	if f.Fleet == nil {
		return nil
	}
	for _, m := range f.members {
		m.halt()
	}
	for _, m := range f.members {
		m.wait()
	}
	var err error
	for _, network := range f.networks {
		err = errors.Join(err, network.Stop())
	}
	return errors.Join(err, f.Stop())
}

// createMembers registers all members, with a Secret to join with, in a member's API server of
// its own that has nothing else.
func (f *fleet) createMembers(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	f.members = make([]*member, f.options.members)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range f.members {
		group.Go(func() error {
			m := &member{
				name: fmt.Sprintf("member-%04d", i), region: fmt.Sprintf("region-%03d", i/regionSize), fleet: f,
				hubAddress:  f.networks[i/regionSize].Addr(),
				assignments: map[types.UID]*v1alpha1.SessionAssignment{}, capacity: newCapacity(f.options.namespaces()),
			}
			cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
			cluster.Spec.Region, cluster.Spec.Zone = m.region, m.region+"-a"
			if i == len(f.members)-1 {
				cluster.Labels = map[string]string{labelScarce: "last"}
			}
			cluster.Spec.IngressDomain = m.name + ".desktops.example.com"
			if err := f.hub.Create(ctx, cluster); err != nil {
				return fmt.Errorf("registering %s: %w", m.name, err)
			}
			m.uid = cluster.UID
			secret, err := harness.BootstrapSecret(ctx, f.Hub.ControlPlane, m.name, string(m.uid), m.hubAddress)
			if err != nil {
				return err
			}
			m.identify(fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build())
			f.members[i] = m
			return nil
		})
	}
	return group.Wait()
}

// identify gives a member an identity, which the hub issues when it first connects.
func (m *member) identify(secrets client.Client) {
	fingerprint := func(context.Context) (string, error) { return "cluster-of-" + m.name, nil }
	m.keeper = identity.NewKeeper(
		identity.Options{Namespace: harness.SystemNamespace, Member: m.name, HubAddress: m.hubAddress, HubServerName: "localhost"},
		identity.Member{Reader: secrets, Client: secrets, Recorder: &events.FakeRecorder{}, Fingerprint: fingerprint})
	m.turns = &turns{Credentials: m.keeper, open: m.fleet.opening}
	m.connection = link.Member{
		Assignments: m, Orders: m, Capacity: m, Terms: m, Lease: m, Fingerprint: fingerprint,
		Synced: func(context.Context) bool { return true },
	}
}

// start starts an agent's process: its link and identity.
func (m *member) start(ctx context.Context) {
	ctx, m.stop = context.WithCancel(ctx)
	m.hub = link.NewClient(link.Options{
		HubAddress: m.hubAddress, HubServerName: "localhost", Credentials: m.turns,
		AgentVersion: "simulated", Instance: uuid.NewString(), Leading: func() bool { return true }, TimeFactor: 1,
	}, m.connection)
	m.running.Go(func() {
		if err := m.hub.Start(ctx); err != nil {
			m.fleet.fail("%s ends: %w", m.name, err)
		}
	})
	m.running.Go(func() { _ = m.keeper.Start(ctx) })
}

// halt ends the process, and wait waits for its end.
func (m *member) halt() {
	if m != nil && m.stop != nil {
		m.stop()
	}
}

func (m *member) wait() {
	if m != nil {
		m.running.Wait()
	}
}

// awaitReady waits until all members are Ready. It watches: a list of a thousand members twice a
// second would cost the API server more than the hub does.
func (f *fleet) awaitReady(ctx context.Context) error {
	ready := map[types.UID]bool{}
	for {
		stream, err := f.hub.Watch(ctx, &v1alpha1.MemberClusterList{})
		if err != nil {
			return fmt.Errorf("%d of %d members are Ready: %w", len(ready), len(f.members), err)
		}
		for e := range stream.ResultChan() {
			if m, ok := e.Object.(*v1alpha1.MemberCluster); ok && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
				ready[m.UID] = true
			}
			if len(ready) == len(f.members) {
				stream.Stop()
				return nil
			}
		}
	}
}

// createTemplates creates templates of four sizes.
func (f *fleet) createTemplates(ctx context.Context) error {
	for i := range f.options.templates {
		t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: templateName(i)}}
		t.Spec.Image, t.Spec.Port = fmt.Sprintf("registry.example.com/desktop-%d:1", i), 6901
		size := int64(1 + i%4)
		requests, err := convert.ResourcesFromWire(map[string]string{
			"cpu": fmt.Sprint(size), "memory": fmt.Sprintf("%dGi", 2*size), "ephemeral-storage": "1Gi",
		})
		if err != nil {
			return err
		}
		t.Spec.Resources.Default = requests
		t.Spec.Access.PasswordEnv = "VNC_PW"
		if err := f.hub.Create(ctx, t); err != nil {
			return fmt.Errorf("creating a template: %w", err)
		}
	}
	return nil
}

func templateName(i int) string { return fmt.Sprintf("desktop-%03d", i) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
