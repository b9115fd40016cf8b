package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// simulated is an agent whose link is the production client, over a member that
// is a map (memory): what it is sent is stored and ready at once. It stands for
// the load of many agents, and for nothing else.
type simulated struct {
	*memory
	client *agentlink.Client
	stop   func()
}

// simulate starts the agent of a member that is on the hub.
func (r *run) simulate(m *memory, uid types.UID, fingerprint string) (*simulated, error) {
	files, err := r.fleet.PKI.Agent(m.name, string(uid))
	if err != nil {
		return nil, err
	}
	s := &simulated{memory: m}
	s.client = agentlink.NewClient(agentlink.Options{
		HubAddress: r.wires[r.fleet.Members[0].Name].addr(), HubServerName: "localhost",
		CertFile: files.CertFile, KeyFile: files.KeyFile, HubCAFile: files.CAFile,
		AgentVersion: "simulated", Instance: uuid.NewString(), TimeFactor: r.factor,
	}, agentlink.Member{
		Assignments: m, Orders: m, Capacity: m, Terms: m,
		Fingerprint: func(context.Context) (string, error) { return fingerprint, nil },
		Synced:      func(context.Context) bool { return true },
	})
	m.link = s.client
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.client.Start(ctx); err != nil {
			r.say("    simulated agent %s: %v", m.name, err)
		}
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		m.hear()
		<-done
	})
	return s, nil
}

// simulateMany makes members that take no sessions, with simulated agents.
func (r *run) simulateMany(ctx context.Context, n int) ([]*simulated, error) {
	var all []*simulated
	for i := range n {
		m := newMemory(fmt.Sprintf("simulated-%03d", i), 0, nil)
		uid, err := r.enlist(ctx, m.name)
		if err != nil {
			return nil, err
		}
		s, err := r.simulate(m, uid, "simulated-"+m.name)
		if err != nil {
			return nil, err
		}
		r.finally(s.stop)
		all = append(all, s)
	}
	return all, nil
}

// simulatedTaint keeps the workload away from members that are simulated: it has
// desktops whose Pods the checker wants to see.
const simulatedTaint = "simulated"

// simulatedRoom is how many nodes a simulated member with room has.
const simulatedRoom = 20

// simulateRoomy makes a member with room, for sessions that are asked for there,
// with a simulated agent. It is part of what both sides must agree on, and lasts
// until that was judged.
func (r *run) simulateRoomy(ctx context.Context, name string) (*simulated, error) {
	return r.simulateCluster(ctx, name, "simulated-"+name)
}

// simulateCluster makes one that says that it is a certain cluster.
func (r *run) simulateCluster(ctx context.Context, name, fingerprint string) (*simulated, error) {
	mc := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MemberClusterSpec{
			Region: name, IngressDomain: name + ".example.com",
			Taints: []corev1.Taint{{Key: simulatedTaint, Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	if err := r.watch.hub.Create(ctx, mc); err != nil {
		return nil, err
	}
	r.atLast(func() { r.dismiss(mc) })
	m := newMemory(name, simulatedRoom, r.watch)
	s, err := r.simulate(m, mc.UID, fingerprint)
	if err != nil {
		return nil, err
	}
	r.watch.simulate(m, true)
	r.finally(s.hear)
	r.atLast(func() {
		s.stop()
		r.watch.simulate(m, false)
	})
	return s, nil
}

// crowdOf makes so many members with room.
func (r *run) crowdOf(ctx context.Context, prefix string, n int) ([]*simulated, error) {
	var all []*simulated
	for i := range n {
		s, err := r.simulateRoomy(ctx, fmt.Sprintf("%s-%02d", prefix, i))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// dismiss deletes a MemberCluster of a scenario.
func (r *run) dismiss(mc *v1alpha1.MemberCluster) {
	ctx, cancel := context.WithTimeout(context.Background(), allowance)
	defer cancel()
	// That it has no sessions any more the hub says within a moment.
	if err := poll(ctx, allowance, func(ctx context.Context) error { return r.watch.hub.Delete(ctx, mc) }); err != nil {
		r.say("    deleting member %s: %v", mc.Name, err)
	}
}

// seat creates a session that only a simulated member may have.
func (r *run) seat(ctx context.Context, name string, at *simulated) (*v1alpha1.VDISession, error) {
	s := r.work.newSession(0, 3)
	s.Name = name
	s.Spec.Placement.RequiredRegions = []string{at.name}
	s.Spec.Placement.ClusterTolerations = []corev1.Toleration{{Key: simulatedTaint, Operator: corev1.TolerationOpExists}}
	if err := poll(ctx, allowance, func(ctx context.Context) error { return r.watch.hub.Create(ctx, s) }); err != nil {
		return nil, fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s, nil
}

// allRun waits until sessions run.
func (r *run) allRun(ctx context.Context, sessions []*v1alpha1.VDISession) error {
	return r.await(ctx, fmt.Sprintf("%d sessions in simulated members run", len(sessions)), func(c *checker) bool {
		for _, s := range sessions {
			if !runs(s.UID)(c) {
				return false
			}
		}
		return true
	})
}

// simulate has the watcher ask a simulated member where it asks API servers, or
// not any more.
func (w *watcher) simulate(m *memory, there bool) {
	w.heard(func(c *checker, _ time.Time) {
		if there {
			w.simulated[m.name] = m
			return
		}
		delete(w.simulated, m.name)
		delete(c.held, m.name)
	})
}
