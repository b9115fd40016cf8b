package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
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
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

const namespace = "desktops"

// regionSize is how many members are in each region.
const regionSize = 10

// fleet is a hub with simulated members.
type fleet struct {
	*harness.Fleet
	options options
	hub     client.WithWatch
	network *proxy.Proxy
	members []*member

	// created is the number of sessions in the fleet.
	created      int
	renewals     renewals
	templateSets atomic.Int64

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
	f := &fleet{options: o}
	var err error
	f.Fleet, err = harness.Start(ctx, harness.Options{
		MemberSpecs: []harness.MemberSpec{}, Enroll: true, Keep: o.keep,
		Progress: func(step string) { fmt.Println("  " + step) },
	})
	if err != nil {
		return nil, err
	}
	if f.hub, err = clientOf(f.Hub.ControlPlane); err != nil {
		return f, err
	}
	if f.network, err = proxy.StartTo("127.0.0.1:0", f.Hub.Service.Backend); err != nil {
		return f, err
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
	if f.network != nil {
		err = f.network.Stop()
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
				assignments: map[types.UID]*v1alpha1.SessionAssignment{}, capacity: newCapacity(),
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
			secret, err := harness.BootstrapSecret(ctx, f.Hub.ControlPlane, m.name, string(m.uid), f.network.Addr())
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
		identity.Options{Namespace: harness.SystemNamespace, Member: m.name, HubAddress: m.fleet.network.Addr(), HubServerName: "localhost"},
		identity.Member{Reader: secrets, Client: secrets, Recorder: &events.FakeRecorder{}, Fingerprint: fingerprint})
	m.connection = link.Member{
		Assignments: m, Orders: m, Capacity: m, Terms: m, Lease: m, Fingerprint: fingerprint,
		Synced: func(context.Context) bool { return true },
	}
}

// start starts an agent's process: its link and identity.
func (m *member) start(ctx context.Context) {
	ctx, m.stop = context.WithCancel(ctx)
	m.hub = link.NewClient(link.Options{
		HubAddress: m.fleet.network.Addr(), HubServerName: "localhost", Credentials: m.keeper,
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

// awaitReady waits until all members are Ready.
func (f *fleet) awaitReady(ctx context.Context) error {
	for {
		var list v1alpha1.MemberClusterList
		if err := f.hub.List(ctx, &list); err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		if ready == len(f.members) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d members are Ready: %w", ready, len(f.members), ctx.Err())
		case <-time.After(500 * time.Millisecond):
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
