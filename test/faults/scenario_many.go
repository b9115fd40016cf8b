package faults

import (
	"context"
	"fmt"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// How many simulated agents there are beside the fleet's own.
const (
	crowd  = 200
	beside = 20
)

// renewEvery is how often the deaf agent renews its lease, and talkEvery how often
// it reports: each report asks for an acknowledgement that it will not read.
const (
	renewEvery = 300 * time.Millisecond
	talkEvery  = time.Millisecond
)

// slowBeside is how long a session may take to run beside an agent that stalls:
// far above what it takes on this machine, and below the link's patience with a
// peer that stalls, 20 s, at FACTOR=1.
const slowBeside = 15 * time.Second

// many has more agents than processes: simulated ones.
func many() []scenario {
	return []scenario{
		{name: "hub-restart-200-simulated", ends: true, size: 12, do: hubRestartCrowd},
		{name: "deaf-peer", size: 12, do: deafPeer},
		{name: "deaf-peer-is-found-out", size: 12, do: deafPeerFoundOut},
	}
}

// hubRestartCrowd kills the leader of 200 agents, and measures when the last of
// them is served by the next.
func hubRestartCrowd(ctx context.Context, r *run) error {
	all, err := r.simulateMany(ctx, crowd)
	if err != nil {
		return err
	}
	if err := r.welcomedAll(ctx, all, 1); err != nil {
		return err
	}
	if err := r.killLeader(ctx, fmt.Sprintf("with %d simulated agents", len(all))); err != nil {
		return err
	}
	began := time.Now()
	if err := r.welcomedAll(ctx, all, 2); err != nil {
		return err
	}
	r.harm("all are served by the next leader after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// welcomedAll waits until each agent was served by so many leaders.
func (r *run) welcomedAll(ctx context.Context, all []*simulated, leaders int) error {
	return poll(ctx, r.scaled(2*time.Minute)+allowance, func(context.Context) error {
		missing := 0
		for _, s := range all {
			if s.welcomed() < leaders {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d simulated agents were not served by leader %d", missing, len(all), leaders)
		}
		return nil
	})
}

// deafPeer is an agent that says hello, renews, reports a thousand times a second
// and never reads, while the others carry on: whether the hub ends its stream or
// not, none of their sessions waits for it.
func deafPeer(ctx context.Context, r *run) error {
	if _, err := r.simulateMany(ctx, beside); err != nil {
		return err
	}
	uid, err := r.enlist(ctx, "deaf")
	if err != nil {
		return err
	}
	files, err := r.fleet.PKI.Write("agent-deaf", r.fleet.PKI.CA, harness.AgentRequest(string(uid)))
	if err != nil {
		return err
	}
	m := r.member()
	conn, err := r.dialHub(files, m)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := fleetv1.NewFleetServiceClient(conn)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream fleetv1.FleetService_ConnectClient
	// The hub learns of a new member within a moment.
	if err := poll(ctx, allowance, func(context.Context) error { stream, err = greet(ctx, client); return err }); err != nil {
		return fmt.Errorf("the deaf agent is not let in: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- deaf(ctx, client, stream) }()
	r.harm("an agent that never reads, beside %d simulated ones", beside)
	began := time.Now()
	slowest := time.Duration(0)
	for n := 0; ; n++ {
		before := time.Now()
		s, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.await(ctx, "a session beside a deaf agent runs", runs(s)); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(before))
		select {
		case err := <-ended:
			r.harm("its stream was ended after %s: %v; meanwhile %d sessions ran, the slowest after %s",
				time.Since(began).Round(100*time.Millisecond), err, n+1, slowest.Round(10*time.Millisecond))
			return nil
		default:
		}
		if time.Since(began) > r.scaled(2*time.Minute) {
			r.harm("its stream lives; %d sessions ran, the slowest after %s", n+1, slowest.Round(10*time.Millisecond))
			return nil
		}
		if slowest > slowBeside {
			return fmt.Errorf("promise 7: a session beside a deaf agent took %s to run", slowest)
		}
		if err := r.pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// greet opens a stream, and reads the Welcome and the request for its inventory: the
// last that is ever read of it.
func greet(ctx context.Context, client fleetv1.FleetServiceClient) (fleetv1.FleetService_ConnectClient, error) {
	stream, err := client.Connect(ctx)
	if err != nil {
		return nil, err
	}
	hello := &fleetv1.Hello{MinProtocol: 1, MaxProtocol: 1, Instance: "deaf", Fingerprint: "deaf", AgentTerm: 1, AgentVersion: "deaf"}
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

// deaf only talks, until the hub ends its stream. It returns why.
func deaf(ctx context.Context, client fleetv1.FleetServiceClient, stream fleetv1.FleetService_ConnectClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for n := uint64(1); sleep(ctx, renewEvery) == nil; n++ {
			_, _ = client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "deaf", Sequence: n})
		}
	}()
	for sequence := uint64(1); ; sequence++ {
		if err := sleep(ctx, talkEvery); err != nil {
			return err
		}
		batch := &fleetv1.ReportBatch{Sequence: sequence}
		if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: batch}}); err != nil {
			return why(stream)
		}
	}
}

// why a stream has ended: after all that it never read.
func why(stream fleetv1.FleetService_ConnectClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}
