package hostile

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
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Forgers returns the scenarios with agents that send false reports, with valid certificates.
func Forgers() []runner.Scenario {
	return []runner.Scenario{
		{Name: "false-reports", Do: func(ctx context.Context, r *runner.Run) error { return forgeReports(ctx, r, 0) }},
		{Name: "false-reports-ahead", Do: func(ctx context.Context, r *runner.Run) error { return forgeReports(ctx, r, future) }},
		{Name: "impostor", EndsProcesses: true, Do: impostor},
	}
}

// future is how far a reported epoch is ahead of the hub's.
const future = 1 << 40

// forgeFor is how long a forged agent sends, in production time.
const forgeFor = time.Minute

// forgeReports runs the agent of a member without sessions. It reports that it holds the sessions
// of another member, that they run, that they have stopped, and that it refuses them: under their
// epochs plus ahead, twice and out of order.
func forgeReports(ctx context.Context, r *runner.Run, ahead int64) error {
	m := r.RandomMember()
	var sessions []types.UID
	for n := range 3 {
		uid, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.Await(ctx, "the session runs", runner.Running(uid)); err != nil {
			return err
		}
		sessions = append(sessions, uid)
	}
	uid, err := runner.CreateMember(ctx, r, "false-reporter")
	if err != nil {
		return err
	}
	files, err := r.Fleet.PKI.Write("agent-false-reporter", r.Fleet.PKI.CA, harness.AgentRequest(string(uid)))
	if err != nil {
		return err
	}
	r.Record("an agent of member false-reporter reports what others hold")
	admitted, err := runForged(ctx, r, forgedAgent{files: files, fingerprint: "false-reporter", term: 1, member: m, reports: reportsOfOthers(r, ahead)})
	if err != nil {
		return err
	}
	r.Record("it was admitted %d times", admitted)
	for _, uid := range sessions {
		var k checker.Session
		r.Watch.With(func(c *checker.Checker, _ time.Time) { k = *c.Session(uid) })
		if k.Epoch != 1 || k.Cluster != m.Name || !k.PodReady {
			return fmt.Errorf("G5: a session of %s is in epoch %d, in %s, ready %t, after another member's false reports of it", m.Name, k.Epoch, k.Cluster, k.PodReady)
		}
	}
	return nil
}

// impostor runs an agent with the credentials of a member whose own agent is down. It reports
// ended epochs as running, again and again.
func impostor(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	if err := r.Pause(ctx, 10*time.Second); err != nil {
		return err
	}
	runner.HoldAgents(r, m, true)
	if err := runner.KillAgents(m); err != nil {
		return err
	}
	r.Record("kill -9 %s; another process with its certificate replays", m.Agent.Spec.Name)
	files, err := r.Fleet.PKI.Agent(m.Name, m.UID)
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
	// This is the term of the agent that was killed: a higher one would lock out the real agent
	// until the hub has another leader.
	term, err := strconv.ParseInt(state.Data["agentTerm"], 10, 64)
	if err != nil {
		return fmt.Errorf("reading the agent's term: %w", err)
	}
	admitted, err := runForged(ctx, r, forgedAgent{files: files, fingerprint: string(cluster.UID), term: term, member: m, reports: func(m *harness.Member) ([]*fleetv1.AssignmentReport, []*fleetv1.OrderResult) {
		return replayedReports(r, m)
	}})
	if err != nil {
		return err
	}
	r.Record("it was admitted %d times; the real agent comes back", admitted)
	return nil
}

// reportsOfOthers returns a function that reports all sessions of another member as running.
func reportsOfOthers(r *runner.Run, ahead int64) func(*harness.Member) ([]*fleetv1.AssignmentReport, []*fleetv1.OrderResult) {
	return func(m *harness.Member) (reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult) {
		r.Watch.With(func(c *checker.Checker, _ time.Time) {
			for _, held := range c.Assignments(m.Name) {
				reports = append(reports, forgedReport(held, held.Epoch+ahead))
				for _, code := range []fleetv1.ResultCode{
					fleetv1.ResultCode_RESULT_CODE_STOPPED, fleetv1.ResultCode_RESULT_CODE_REFUSED, fleetv1.ResultCode_RESULT_CODE_STORED,
				} {
					results = append(results, forgedResult(held, held.Epoch+ahead, code))
				}
			}
		})
		return reports, results
	}
}

// replayedReports returns reports of epochs that are over, and results of orders that were never
// sent.
func replayedReports(r *runner.Run, m *harness.Member) (reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult) {
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for _, held := range c.Assignments(m.Name) {
			if held.Epoch > 1 {
				reports = append(reports, forgedReport(held, held.Epoch-1))
				results = append(results, forgedResult(held, held.Epoch-1, fleetv1.ResultCode_RESULT_CODE_STOPPED))
			}
		}
		for uid, k := range c.Sessions() {
			if k.Deleted { // what was stopped and removed long ago
				gone := checker.AssignmentState{Session: uid, Name: k.Name, Epoch: max(k.Epoch, 1)}
				reports = append(reports, forgedReport(gone, gone.Epoch))
				results = append(results, forgedResult(gone, gone.Epoch, fleetv1.ResultCode_RESULT_CODE_STORED))
			}
		}
	})
	return reports, results
}

func forgedReport(a checker.AssignmentState, epoch int64) *fleetv1.AssignmentReport {
	at := watch.Key(a.Name)
	now := time.Now()
	report := &fleetv1.AssignmentReport{
		SessionUid: string(a.Session), Namespace: at.Namespace, Name: at.Name, Epoch: epoch, SpecHash: "0123456789abcdef",
		SessionNamespace: at.Namespace, SessionName: at.Name,
		Status: &fleetv1.AssignmentStatus{ObservedGeneration: 1, State: string(v1alpha1.AssignmentActive)},
	}
	for _, condition := range []string{v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		report.Status.Conditions = append(report.Status.Conditions, trueCondition(condition, now))
	}
	return report
}

func forgedResult(a checker.AssignmentState, epoch int64, code fleetv1.ResultCode) *fleetv1.OrderResult {
	at := watch.Key(a.Name)
	return &fleetv1.OrderResult{
		SessionUid: string(a.Session), Namespace: at.Namespace, Name: at.Name, Epoch: epoch, Code: code,
		Reason: v1alpha1.RefusedStaleEpoch, Message: "forged", SpecHash: "0123456789abcdef",
	}
}
