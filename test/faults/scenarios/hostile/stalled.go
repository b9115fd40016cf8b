package hostile

import (
	"context"
	"fmt"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// The stalled agent renews its lease every renewEvery, and reports every reportEvery: each report
// requires an acknowledgement that it does not read.
const (
	renewEvery  = 300 * time.Millisecond
	reportEvery = time.Millisecond
)

// otherAgents is the number of simulated agents beside the fleet's own.
const otherAgents = 20

// Stalled returns the scenarios with agents that read nothing.
func Stalled() []runner.Scenario {
	return []runner.Scenario{
		{Name: "stalled-peer", Size: 12, Do: stalledPeer},
		{Name: "stalled-peer-detected", Size: 12, Do: stalledPeerFound},
	}
}

// slowSession is how long a session may take to run beside an agent that stalls: far above what it
// takes on this machine, and below the 20 s that the link waits for a peer that stalls, at
// FACTOR=1.
const slowSession = 15 * time.Second

// stalledPeer runs an agent that sends Hello, renews, reports a thousand times a second and never
// reads. Whether the hub ends its stream or not, no session of another agent waits for it.
func stalledPeer(ctx context.Context, r *runner.Run) error {
	if _, err := runner.SimulateAgents(ctx, r, otherAgents); err != nil {
		return err
	}
	uid, err := runner.CreateMember(ctx, r, "stalled")
	if err != nil {
		return err
	}
	files, err := r.Fleet.PKI.Write("agent-deaf", r.Fleet.PKI.CA, harness.AgentRequest(string(uid)))
	if err != nil {
		return err
	}
	m := r.RandomMember()
	conn, err := dialHub(r, files, m)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := fleetv1.NewFleetServiceClient(conn)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream fleetv1.FleetService_ConnectClient
	// The hub may take a moment to register a new member.
	if err := stage.Poll(ctx, stage.Allowance, func(context.Context) error { stream, err = openStream(ctx, client); return err }); err != nil {
		return fmt.Errorf("the stalled agent is not admitted: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- reportOnly(ctx, client, stream) }()
	r.Record("an agent that never reads, beside %d simulated ones", otherAgents)
	began := time.Now()
	slowest := time.Duration(0)
	for n := 0; ; n++ {
		before := time.Now()
		s, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.Await(ctx, "a session beside a stalled agent runs", runner.Running(s)); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(before))
		select {
		case err := <-ended:
			r.Record("its stream was ended after %s: %v; meanwhile %d sessions ran, the slowest after %s",
				time.Since(began).Round(100*time.Millisecond), err, n+1, slowest.Round(10*time.Millisecond))
			return nil
		default:
		}
		if time.Since(began) > r.Scaled(2*time.Minute) {
			r.Record("its stream is open; %d sessions ran, the slowest after %s", n+1, slowest.Round(10*time.Millisecond))
			return nil
		}
		if slowest > slowSession {
			return fmt.Errorf("G7: a session beside a stalled agent took %s to run", slowest)
		}
		if err := r.Pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// openStream opens a stream, and reads the Welcome and the request for the inventory. Nothing
// after that is read.
func openStream(ctx context.Context, client fleetv1.FleetServiceClient) (fleetv1.FleetService_ConnectClient, error) {
	stream, err := client.Connect(ctx)
	if err != nil {
		return nil, err
	}
	hello := &fleetv1.Hello{MinProtocol: 1, MaxProtocol: 1, Instance: "stalled", Fingerprint: "deaf", AgentTerm: 1, AgentVersion: "deaf"}
	if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		_, err = stream.Recv()
		return nil, err
	}
	if _, err := stream.Recv(); err != nil {
		return nil, err
	}
	if err := offerInventory(stream); err != nil {
		return nil, err
	}
	return stream, stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: &fleetv1.Inventory{Last: true}}})
}

// reportOnly sends, and reads nothing, until the hub ends the stream. It returns why that was.
func reportOnly(ctx context.Context, client fleetv1.FleetServiceClient, stream fleetv1.FleetService_ConnectClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for n := uint64(1); stage.Sleep(ctx, renewEvery) == nil; n++ {
			_, _ = client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "stalled", Sequence: n})
		}
	}()
	for sequence := uint64(1); ; sequence++ {
		if err := stage.Sleep(ctx, reportEvery); err != nil {
			return err
		}
		batch := &fleetv1.ReportBatch{Sequence: sequence}
		if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: batch}}); err != nil {
			return streamError(stream)
		}
	}
}

// streamError discards what was not read of a stream, and returns the error that ended it.
func streamError(stream fleetv1.FleetService_ConnectClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}
