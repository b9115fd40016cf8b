package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// forgedAgent is an agent with any certificate, fingerprint and term that sends reports about a
// member.
type forgedAgent struct {
	files       harness.LinkFiles
	fingerprint string
	term        int64
	member      *harness.Member
	reports     func(*harness.Member) ([]*fleetv1.AssignmentReport, []*fleetv1.OrderResult)
}

// runForged sends the messages of a forged agent for forgeFor, over one stream after another: the
// hub may end any of them. It returns how often the hub admitted it.
func runForged(ctx context.Context, r *runner.Run, forged forgedAgent) (admitted int, err error) {
	conn, err := dialHub(r, forged.files, forged.member)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	client := fleetv1.NewFleetServiceClient(conn)
	ctx, cancel := context.WithTimeout(ctx, r.Scaled(forgeFor))
	defer cancel()
	for ctx.Err() == nil {
		in, last := runForgedOnce(ctx, r, client, forged)
		if in {
			admitted++
		}
		err = last
		if stage.Sleep(ctx, r.Scaled(time.Second)) != nil {
			break
		}
	}
	if admitted == 0 {
		return 0, fmt.Errorf("the agent was never admitted: %w", err)
	}
	return admitted, nil
}

// dialHub connects to the hub over a member's link with any certificate.
func dialHub(r *runner.Run, files harness.LinkFiles, by *harness.Member) (*grpc.ClientConn, error) {
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	ca, err := os.ReadFile(files.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the hub's CA: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "localhost", RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{cert}}
	config.RootCAs.AppendCertsFromPEM(ca)
	return grpc.NewClient(r.Links[by.Name].Addr(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
}

// runForgedOnce opens a stream as the protocol requires, and sends the forged messages. It returns
// whether the hub admitted it, and the error that ended the stream.
func runForgedOnce(ctx context.Context, r *runner.Run, client fleetv1.FleetServiceClient, forged forgedAgent) (in bool, err error) {
	stream, err := client.Connect(ctx)
	if err != nil {
		return false, err
	}
	instance := uuid.NewString()
	hello := &fleetv1.Hello{MinProtocol: 1, MaxProtocol: 1, Instance: instance, Fingerprint: forged.fingerprint, AgentTerm: forged.term, AgentVersion: "forged"}
	if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		_, err = stream.Recv()
		return false, err
	}
	if _, err := stream.Recv(); err != nil {
		return false, err
	}
	if err := offerInventory(stream); err != nil {
		return true, err
	}
	reports, results := forged.reports(forged.member)
	for _, message := range messages(r, reports, results) {
		if _, err := client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: instance, Sequence: 1}); err != nil {
			return true, err
		}
		if err := stream.Send(message); err != nil {
			_, err = stream.Recv()
			return true, err
		}
		if err := stage.Sleep(ctx, 20*time.Millisecond); err != nil {
			return true, err
		}
	}
	return true, stream.CloseSend()
}

// offerInventory sends an inventory digest that differs from the hub's in every bucket, and waits
// until the hub requests the inventory.
func offerInventory(stream fleetv1.FleetService_ConnectClient) error {
	digest := &fleetv1.InventoryDigest{Buckets: make([]uint64, convert.Buckets), Assignments: 1}
	for i := range digest.Buckets {
		digest.Buckets[i] = ^uint64(i)
	}
	if err := stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{InventoryDigest: digest}}); err != nil {
		_, err = stream.Recv()
		return err
	}
	_, err := stream.Recv()
	return err
}

// messages returns an inventory, a batch of reports and the results, and then all of them four
// times in random order.
func messages(r *runner.Run, reports []*fleetv1.AssignmentReport, results []*fleetv1.OrderResult) []*fleetv1.ConnectRequest {
	inventory := &fleetv1.Inventory{Items: reports, Last: true}
	out := []*fleetv1.ConnectRequest{{Message: &fleetv1.ConnectRequest_Inventory{Inventory: inventory}}}
	backwards := slices.Clone(reports)
	slices.Reverse(backwards)
	both := append(backwards, reports...)
	out = append(out,
		&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: 1, Items: both}}},
		&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Results{Results: &fleetv1.ResultBatch{Items: results}}})
	var more []*fleetv1.ConnectRequest
	for sequence := range uint64(4) {
		batch := &fleetv1.ReportBatch{Sequence: 4 - sequence, Items: both}
		more = append(more,
			&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: batch}},
			&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Results{Results: &fleetv1.ResultBatch{Items: results}}},
			&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: inventory}},
		)
	}
	r.Random.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
	return append(out, more...)
}

func trueCondition(condition string, now time.Time) *fleetv1.Condition {
	return &fleetv1.Condition{
		Type: condition, Status: "True", Reason: "Ready", Message: "forged",
		ObservedGeneration: 1, LastTransitionTime: timestamppb.New(now),
	}
}
