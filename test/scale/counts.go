package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// The users of hub and agents in the audit logs.
const (
	hubUser   = harness.HubUser
	agentUser = harness.AgentUser
)

// The most writes per session from create to Running, without events and leases
// (docs/design.md, section 10).
const (
	hubWritesAtMost     = 4
	memberWritesBesides = 3
	// roleWritesAtMost limits the hub's writes of users' Roles, with --user-roles.
	roleWritesAtMost = 1
)

// children are the kinds that the agent creates for a session, and the
// assignment itself.
var children = []schema.GroupVersionResource{
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	v1alpha1.GroupVersion.WithResource("sessionassignments"),
}

// left counts the fleet's objects of a kind in a member's namespace.
func left(ctx context.Context, m *harness.Member, gvr schema.GroupVersionResource) (int, error) {
	list, err := m.ControlPlane.Dynamic.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy,
	})
	if err != nil {
		return 0, fmt.Errorf("counting %s in %s: %w", gvr.Resource, m.Name, err)
	}
	return len(list.Items), nil
}

// count checks that each session has exactly one Pod in the whole fleet.
func (m *measurement) count(ctx context.Context) error {
	list := &v1alpha1.VDISessionList{}
	if err := m.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	placed := map[string]int{}
	for i := range list.Items {
		if p := list.Items[i].Status.Placement; p != nil {
			placed[p.ClusterName]++
		}
	}
	pods := map[string]int{}
	fmt.Println("\nmember       nodes  sessions  pods")
	for _, member := range m.fleet.Members {
		found, err := member.ControlPlane.Dynamic.Resource(children[0]).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range found.Items {
			pods[found.Items[i].GetLabels()[v1alpha1.LabelSessionUID]]++
		}
		nodes := 0
		for _, g := range member.Spec.Nodes {
			nodes += g.Count
		}
		fmt.Printf("%-12s %5d  %8d  %4d\n", member.Name, nodes, placed[member.Name], len(found.Items))
	}
	for i := range list.Items {
		s := &list.Items[i]
		m.claim(pods[string(s.UID)] == 1, "session %s has %d Pods in the fleet", s.Name, pods[string(s.UID)])
	}
	m.claim(len(pods) == m.sessions, "%d sessions have Pods, of %d", len(pods), m.sessions)
	return nil
}

func (m *measurement) mark() (map[string]int64, error) {
	marks := map[string]int64{}
	for name, log := range m.logs() {
		offset, err := harness.AuditMark(log)
		if err != nil {
			return nil, err
		}
		marks[name] = offset
	}
	return marks, nil
}

func (m *measurement) logs() map[string]string {
	logs := map[string]string{"hub": m.fleet.Hub.ControlPlane.AuditLog()}
	for _, member := range m.fleet.Members {
		logs[member.Name] = member.ControlPlane.AuditLog()
	}
	return logs
}

// writes prints the writes of the burst by user, and checks the number per session.
func (m *measurement) writes(context.Context) error {
	fmt.Printf("\nwrites per session, create to Running, from the audit logs (leases and events apart)\n")
	hub, err := harness.CountWrites(m.logs()["hub"], harness.CountOptions{Offset: m.marks["hub"], Users: []string{hubUser}})
	if err != nil {
		return err
	}
	m.print("hub", hub)
	perSession := m.per(total(hub, "memberclusters", "vditemplates", "roles", "rolebindings"))
	roles := m.per(total(hub)) - m.per(total(hub, "roles", "rolebindings"))
	m.claim(roles <= roleWritesAtMost, "the hub wrote Roles of users %.2f times a session, more than %d", roles, roleWritesAtMost)
	m.claim(perSession <= hubWritesAtMost, "the hub wrote %.2f times a session, more than %d", perSession, hubWritesAtMost)

	members, created := 0, 0
	for _, member := range m.fleet.Members {
		counts, err := harness.CountWrites(member.ControlPlane.AuditLog(), harness.CountOptions{Offset: m.marks[member.Name], Users: []string{agentUser}})
		if err != nil {
			return err
		}
		m.print(member.Name, counts)
		members += total(counts)
		for _, c := range counts {
			if c.Verb == "create" && c.Resource != "sessionassignments" {
				created += c.Count
			}
		}
	}
	fmt.Printf("hub %.2f a session (at most %d), and Roles of users %.2f (at most %d, of %d sessions a user); members %.2f a session, of which %.2f children (at most one a child plus %d)\n",
		perSession, hubWritesAtMost, roles, roleWritesAtMost, sessionsPerUser, m.per(members), m.per(created), memberWritesBesides)
	m.claim(m.per(members) <= m.per(created)+memberWritesBesides, "the members wrote %.2f times a session for %.2f children", m.per(members), m.per(created))
	return nil
}

func (m *measurement) print(cluster string, counts []harness.WriteCount) {
	for _, c := range counts {
		fmt.Printf("  %-10s %-10s %-7s %-30s %5d  %.2f a session (%d failed)\n", cluster, c.User, c.Verb, c.Resource, c.Count, m.per(c.Count), c.Failed)
	}
}

func (m *measurement) per(n int) float64 { return float64(n) / float64(m.sessions) }

// total adds up counts, without those of some resources that are not written
// per session.
func total(counts []harness.WriteCount, except ...string) int {
	n := 0
	for _, c := range counts {
		skip := false
		for _, resource := range except {
			skip = skip || strings.HasPrefix(c.Resource, resource)
		}
		if !skip {
			n += c.Count
		}
	}
	return n
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// idle checks that the fleet writes nothing but leases while nothing happens.
func (m *measurement) idle(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	// Writes that follow the burst end: the slots of a member's status, and the term of the
	// hub, which it advances and agents store within 10 s each.
	if err := pause(ctx, 25*time.Second); err != nil {
		return err
	}
	marks, err := m.mark()
	if err != nil {
		return err
	}
	fmt.Printf("\nwatching the idle fleet of %d sessions for %s\n", m.sessions, d)
	if err := pause(ctx, d); err != nil {
		return err
	}
	writes := 0
	for name, log := range m.logs() {
		counts, err := harness.CountWrites(log, harness.CountOptions{Offset: marks[name], Users: []string{hubUser, agentUser}, Events: true})
		if err != nil {
			return err
		}
		m.print(name, counts)
		writes += total(counts)
	}
	fmt.Printf("writes of hub and agents, leases apart: %d\n", writes)
	m.claim(writes == 0, "the idle fleet wrote %d times in %s", writes, d)
	return nil
}

// deleteAll deletes all sessions, and waits for their end.
func (m *measurement) deleteAll(ctx context.Context) error {
	if err := m.hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("deleting the sessions: %w", err)
	}
	for {
		list := &v1alpha1.VDISessionList{}
		if err := m.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("%d sessions are left: %w", len(list.Items), err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// delete removes all sessions and checks that nothing is left anywhere.
func (m *measurement) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	began := time.Now()
	if err := m.deleteAll(ctx); err != nil {
		return err
	}
	fmt.Printf("\nall deleted after %s\n", round(time.Since(began)))
	for _, member := range m.fleet.Members {
		for _, gvr := range children {
			n, err := left(ctx, member, gvr)
			if err != nil {
				return err
			}
			m.claim(n == 0, "%d %s are left in %s", n, gvr.Resource, member.Name)
		}
	}
	return nil
}
