package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Agents returns the scenarios with a member's agent that tries to take the hub down.
func Agents() []runner.Scenario {
	return []runner.Scenario{{Name: "attack-false-reports", Do: falseReportFlood}}
}

const (
	// agentAttackTime is the attack's production time: a minute with the default factor.
	agentAttackTime = 5 * time.Minute
	// attackGrowth is by how many bytes the leader's memory may grow during the attack.
	attackGrowth = 150 << 20
	// promptRenewal is a lease renewal time at p99 that is always accepted.
	promptRenewal = 250 * time.Millisecond
	// loadFactor times the p99 without an attack is accepted too: the machine may be loaded.
	loadFactor = 5
)

// terminalEscapes sets a terminal's clipboard and moves its cursor up.
const terminalEscapes = "\x1b]52;c;Y3VybA==\x07\x1b[2A\u009b1A"

// falseReportFlood floods the hub with invented names, results, templates and hub terms from the agent
// of one member, while another member renews its lease.
func falseReportFlood(ctx context.Context, r *runner.Run) error {
	witness, err := newRawAgent(ctx, r, "witness")
	if err != nil {
		return err
	}
	attacker, err := newRawAgent(ctx, r, "attacker")
	if err != nil {
		return err
	}
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	calm, err := witness.renewals(ctx, r.Scaled(time.Minute))
	if err != nil {
		return err
	}
	before, err := leaderMetrics(ctx, r, leader, "process_resident_memory_bytes", "vdi_hub_term_raised_total")
	if err != nil {
		return err
	}
	r.Record("an agent of member attacker invents names, results, templates and hub terms")
	group, gctx := errgroup.WithContext(ctx)
	attacking, cancel := context.WithTimeout(gctx, r.Scaled(agentAttackTime))
	defer cancel()
	var attacked []time.Duration
	var sent map[string]int
	peak := before[0]
	group.Go(func() error { sent = attacker.attack(attacking); return nil })
	group.Go(func() (err error) { attacked, err = witness.renewals(gctx, r.Scaled(agentAttackTime)); return err })
	group.Go(func() error {
		for stage.Sleep(attacking, 250*time.Millisecond) == nil {
			if now, err := leaderMetrics(attacking, r, leader, "process_resident_memory_bytes"); err == nil {
				peak = max(peak, now[0])
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.Record("it sent %v; the leader took %.0f MB before and %.0f MB at most; another member's renewals took %s at p99 before and %s meanwhile (%d)",
		sent, before[0]/(1<<20), peak/(1<<20), p99(calm), p99(attacked), len(attacked))
	after, err := leaderMetrics(ctx, r, leader, "vdi_hub_term_raised_total")
	if err != nil {
		return fmt.Errorf("the leader did not outlive it: %w", err)
	}
	return errors.Join(checkHub(before[1], after[0], peak-before[0], p99(calm), p99(attacked), sent), checkNoEscapes(ctx, r))
}

// leaderMetrics returns metrics without labels of the hub's leader.
func leaderMetrics(ctx context.Context, r *runner.Run, leader *harness.Replica, names ...string) ([]float64, error) {
	metrics, err := r.Fleet.Hub.Metrics(ctx, leader)
	if err != nil {
		return nil, err
	}
	return stage.Values(metrics, names...)
}

// checkHub checks that the attack raised no term, cost little memory and delayed no renewal.
func checkHub(termsBefore, termsAfter, growth float64, calm, attacked time.Duration, sent map[string]int) error {
	var errs []error
	if termsAfter != termsBefore {
		errs = append(errs, errors.New("a claim without proof raised the hub's term"))
	}
	if growth > attackGrowth {
		errs = append(errs, fmt.Errorf("the leader grew by %.0f MB", growth/(1<<20)))
	}
	if attacked > promptRenewal && attacked > loadFactor*calm {
		errs = append(errs, fmt.Errorf("another member's lease renewals took %s at p99, and %s without the attack", attacked, calm))
	}
	for _, kind := range []string{"reports", "results", "templates", "terms"} {
		if sent[kind] == 0 {
			errs = append(errs, fmt.Errorf("no %s were sent: nothing was tried", kind))
		}
	}
	return errors.Join(errs...)
}

// checkNoEscapes checks that no escape sequence that the agent sent is in a status, and that no
// session waits for the members of a restored hub.
func checkNoEscapes(ctx context.Context, r *runner.Run) error {
	members, sessions := &v1alpha1.MemberClusterList{}, &v1alpha1.VDISessionList{}
	if err := errors.Join(r.Watch.Hub.List(ctx, members), r.Watch.Hub.List(ctx, sessions)); err != nil {
		return err
	}
	text, err := json.Marshal([]any{members, sessions})
	if err != nil {
		return err
	}
	for _, bad := range []string{`\u001b`, `\u0007`, "\u009b", v1alpha1.ReasonHubRestored} {
		if strings.Contains(string(text), bad) {
			return fmt.Errorf("%q is in the status of a member or session", bad)
		}
	}
	return nil
}

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)-1)*99/100]
}

// rawAgent sends the protocol's messages one by one, as the agent of a member that takes no
// sessions.
type rawAgent struct {
	run      *runner.Run
	name     string
	instance string
	client   fleetv1.FleetServiceClient
}

func newRawAgent(ctx context.Context, r *runner.Run, name string) (*rawAgent, error) {
	uid, err := runner.CreateMember(ctx, r, name)
	if err != nil {
		return nil, err
	}
	files, err := r.Fleet.PKI.Write("agent-"+name, r.Fleet.PKI.CA, harness.AgentRequest(string(uid)))
	if err != nil {
		return nil, err
	}
	conn, err := dialHub(r, files, r.Fleet.Members[0])
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() { _ = conn.Close() })
	return &rawAgent{run: r, name: name, instance: uuid.NewString(), client: fleetv1.NewFleetServiceClient(conn)}, nil
}

type rawStream = grpc.BidiStreamingClient[fleetv1.ConnectRequest, fleetv1.ConnectResponse]

// open opens a stream with an empty inventory.
func (a *rawAgent) open(ctx context.Context, term int64) (rawStream, error) {
	stream, err := a.client.Connect(ctx)
	if err != nil {
		return nil, err
	}
	hello := &fleetv1.Hello{
		MinProtocol: 1, MaxProtocol: 1, Instance: a.instance, Fingerprint: a.name, AgentTerm: 1, AgentVersion: "raw",
		HighestHubTerm: term, HighestHubTermProof: "invented",
	}
	if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); err != nil {
		return nil, err
	}
	if err := offerInventory(stream); err != nil {
		return nil, err
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	return stream, stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: &fleetv1.Inventory{Last: true}}})
}

// renewals renews the lease for a time, and returns how long each renewal took.
func (a *rawAgent) renewals(ctx context.Context, d time.Duration) (took []time.Duration, err error) {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	err = stage.Poll(ctx, a.run.Scaled(time.Minute)+stage.Allowance, func(context.Context) error {
		_, err := a.open(streaming, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connecting member %s: %w", a.name, err)
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		if _, err := a.client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: a.instance, Sequence: 1}); err != nil {
			return nil, fmt.Errorf("renewing the lease of %s: %w", a.name, err)
		}
		took = append(took, time.Since(began))
		// The hub limits the rate of renewals.
		if err := stage.Sleep(ctx, 250*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// attack sends invented messages over one stream after another until the context ends, and returns
// how many it sent of each kind.
func (a *rawAgent) attack(ctx context.Context) map[string]int {
	sent := map[string]int{}
	for n := 0; ctx.Err() == nil; n++ {
		if _, err := a.open(ctx, int64(1000+n)); err != nil && ctx.Err() == nil {
			sent["terms"]++ // it was refused
		}
		stream, err := a.open(ctx, 0)
		if err != nil {
			_ = stage.Sleep(ctx, 50*time.Millisecond)
			continue
		}
		a.flood(stream, n, sent)
	}
	return sent
}

// flood sends until the hub ends the stream.
func (a *rawAgent) flood(stream rawStream, n int, sent map[string]int) {
	for round := uint64(1); ; round++ {
		reports, results, capacity := invention(n, round)
		for kind, message := range map[string]*fleetv1.ConnectRequest{
			"templates": {Message: &fleetv1.ConnectRequest_Capacity{Capacity: capacity}},
			"results":   {Message: &fleetv1.ConnectRequest_Results{Results: &fleetv1.ResultBatch{Items: results}}},
			"reports":   {Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: round, Items: reports}}},
		} {
			if stream.Send(message) != nil {
				return
			}
			sent[kind]++
		}
	}
}

// inventedNames, inventedLong and inventedTemplates are the numbers of names, of messages of full
// length and of templates in a round.
const (
	inventedNames     = 2000
	inventedLong      = 20
	inventedTemplates = 200
)

// invention returns a round of invented messages, each under names that were not used before.
func invention(n int, round uint64) (reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult, capacity *fleetv1.CapacityReport) {
	for i := range inventedNames {
		invented := checker.AssignmentState{Session: types.UID(uuid.NewString()), Name: fmt.Sprintf(workload.Namespace+"/invented-%d-%d-%d", n, round, i), Epoch: 1}
		report := forgedReport(invented, 1)
		report.Status.Message = terminalEscapes
		if i < inventedLong {
			for c := range 16 - len(report.Status.Conditions) {
				condition := trueCondition(fmt.Sprint("Invented", c), time.Now())
				condition.Message = terminalEscapes + strings.Repeat("x", 2048)
				report.Status.Conditions = append(report.Status.Conditions, condition)
			}
		}
		reports = append(reports, report)
		for _, code := range []fleetv1.ResultCode{fleetv1.ResultCode_RESULT_CODE_STORED, fleetv1.ResultCode_RESULT_CODE_STOPPED} {
			results = append(results, forgedResult(checker.AssignmentState{Session: types.UID(uuid.NewString()), Name: invented.Name + "-result"}, 1, code))
		}
	}
	capacity = &fleetv1.CapacityReport{Sequence: round, BasedOn: round - 1}
	for i := range inventedTemplates {
		capacity.Templates = append(capacity.Templates, &fleetv1.TemplateCapacity{
			Name: fmt.Sprintf("invented-%d-%d", round, i), Revision: "r", Reason: "Node", Message: terminalEscapes + strings.Repeat("x", 2000)})
	}
	return reports, results, capacity
}
