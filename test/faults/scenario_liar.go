package faults

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// liars are agents that say what is not so, with good certificates.
func liars() []scenario {
	return []scenario{
		{name: "liar", do: func(ctx context.Context, r *run) error { return liar(ctx, r, 0) }},
		{name: "liar-of-the-future", do: func(ctx context.Context, r *run) error { return liar(ctx, r, future) }},
		{name: "impostor", ends: true, do: impostor},
	}
}

// future is how far ahead of the hub's an epoch may be said to be.
const future = 1 << 40

// liesFor is how long they lie, in time of production.
const liesFor = time.Minute

// liar is the agent of a member that holds nothing. It says that it holds the
// others' sessions, that they run, that they have stopped, and that it refuses
// them; in their epochs, and in those that are so much later; twice and out of
// order.
func liar(ctx context.Context, r *run, ahead int64) error {
	m := r.member()
	var ours []types.UID
	for n := range 3 {
		uid, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.await(ctx, "the marked session runs", runs(uid)); err != nil {
			return err
		}
		ours = append(ours, uid)
	}
	uid, err := r.enlist(ctx, "liar")
	if err != nil {
		return err
	}
	files, err := r.fleet.PKI.Write("agent-liar", r.fleet.PKI.CA, harness.AgentRequest(string(uid)))
	if err != nil {
		return err
	}
	r.harm("an agent of member liar speaks of what others hold")
	told, err := r.lie(ctx, rogue{files: files, fingerprint: "liar", term: 1, about: m, says: r.others(ahead)})
	if err != nil {
		return err
	}
	r.harm("it was heard %d times", told)
	for _, uid := range ours {
		var k known
		r.watch.heard(func(c *checker, _ time.Time) { k = *c.sessions[uid] })
		if k.Epoch != 1 || k.Cluster != m.Name || !k.PodReady {
			return fmt.Errorf("promise 5: a session of %s is in epoch %d, in %s, ready %t, after another member lied about it", m.Name, k.Epoch, k.Cluster, k.PodReady)
		}
	}
	return nil
}

// enlist makes a MemberCluster that takes no sessions, for the scenario's time.
func (r *run) enlist(ctx context.Context, name string) (types.UID, error) {
	mc := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MemberClusterSpec{
			Region: name, IngressDomain: name + ".example.com", Scheduling: v1alpha1.SchedulingCordoned,
		},
	}
	if err := r.watch.hub.Create(ctx, mc); err != nil {
		return "", err
	}
	r.finally(func() { r.dismiss(mc) })
	return mc.UID, nil
}

// impostor has the credentials of a member whose agent is down, and speaks of
// what this holds: of epochs that are over as if they ran, and over again.
func impostor(ctx context.Context, r *run) error {
	m := r.member()
	if err := r.pause(ctx, 10*time.Second); err != nil {
		return err
	}
	r.holdAgents(m, true)
	if err := killAgents(m); err != nil {
		return err
	}
	r.harm("kill -9 %s; somebody with its certificate replays", m.Agent.Spec.Name)
	files, err := r.fleet.PKI.Agent(m.Name, m.UID)
	if err != nil {
		return err
	}
	cluster, err := m.ControlPlane.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	state, err := m.ControlPlane.Client.CoreV1().ConfigMaps(harness.SystemNamespace).Get(ctx, agentlink.TermsConfigMap, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// The term of the agent that was killed: one that is ahead of it would lock
	// out the true agent until the hub has another leader.
	term, err := strconv.ParseInt(state.Data["agentTerm"], 10, 64)
	if err != nil {
		return fmt.Errorf("reading the agent's term: %w", err)
	}
	told, err := r.lie(ctx, rogue{files: files, fingerprint: string(cluster.UID), term: term, about: m, says: r.replays})
	if err != nil {
		return err
	}
	r.harm("it was heard %d times; the true agent comes back", told)
	return nil
}

// others are reports of all sessions that another member holds, as running.
func (r *run) others(ahead int64) func(*harness.Member) ([]*fleetv1.AssignmentReport, []*fleetv1.OrderResult) {
	return func(m *harness.Member) (reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult) {
		r.watch.heard(func(c *checker, _ time.Time) {
			for _, held := range c.held[m.Name] {
				reports = append(reports, lieOf(held, held.Epoch+ahead))
				for _, code := range []fleetv1.ResultCode{
					fleetv1.ResultCode_RESULT_CODE_STOPPED, fleetv1.ResultCode_RESULT_CODE_REFUSED, fleetv1.ResultCode_RESULT_CODE_STORED,
				} {
					results = append(results, answerOf(held, held.Epoch+ahead, code))
				}
			}
		})
		return reports, results
	}
}

// replays are reports of epochs that are over, and answers to orders that were
// never given.
func (r *run) replays(m *harness.Member) (reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult) {
	r.watch.heard(func(c *checker, _ time.Time) {
		for _, held := range c.held[m.Name] {
			if held.Epoch > 1 {
				reports = append(reports, lieOf(held, held.Epoch-1))
				results = append(results, answerOf(held, held.Epoch-1, fleetv1.ResultCode_RESULT_CODE_STOPPED))
			}
		}
		for uid, k := range c.sessions {
			if k.gone { // what was stopped and forgotten long since
				gone := assignmentFact{Session: uid, Name: k.Name, Epoch: max(k.Epoch, 1)}
				reports = append(reports, lieOf(gone, gone.Epoch))
				results = append(results, answerOf(gone, gone.Epoch, fleetv1.ResultCode_RESULT_CODE_STORED))
			}
		}
	})
	return reports, results
}

func lieOf(a assignmentFact, epoch int64) *fleetv1.AssignmentReport {
	at := key(a.Name)
	now := time.Now()
	report := &fleetv1.AssignmentReport{
		SessionUid: string(a.Session), Namespace: at.Namespace, Name: at.Name, Epoch: epoch, SpecHash: "0123456789abcdef",
		SessionNamespace: at.Namespace, SessionName: at.Name,
		Status: &fleetv1.AssignmentStatus{ObservedGeneration: 1, State: string(v1alpha1.AssignmentActive)},
	}
	for _, condition := range []string{v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		report.Status.Conditions = append(report.Status.Conditions, conditionOf(condition, now))
	}
	return report
}

func answerOf(a assignmentFact, epoch int64, code fleetv1.ResultCode) *fleetv1.OrderResult {
	at := key(a.Name)
	return &fleetv1.OrderResult{
		SessionUid: string(a.Session), Namespace: at.Namespace, Name: at.Name, Epoch: epoch, Code: code,
		Reason: v1alpha1.RefusedStaleEpoch, Message: "so it says", SpecHash: "0123456789abcdef",
	}
}
