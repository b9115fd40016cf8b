package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// attackRate is the most attacks a second of all attackers together: the scenario tests the hub's
// bounds, not how fast a machine can dial.
const attackRate = 300

// floodTarget is the address that attackers dial, with the dialer, TLS configuration and rate.
type floodTarget struct {
	address string
	dialer  *net.Dialer
	config  *tls.Config
	pace    *rate.Limiter
	// did counts the attacks.
	did atomic.Int64
}

// floodRun is a flood that lasts until end is called.
type floodRun struct {
	*floodTarget
	cancel    context.CancelFunc
	attackers sync.WaitGroup
}

// startFlood starts the attackers, and returns once each has attacked.
func startFlood(ctx context.Context, r *runner.Run, a flood, leader *harness.Replica) (*floodRun, error) {
	ca, err := os.ReadFile(r.Fleet.PKI.CAFile())
	if err != nil {
		return nil, fmt.Errorf("reading the hub's CA: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "localhost", RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	config.RootCAs.AppendCertsFromPEM(ca)
	s := &floodRun{floodTarget: &floodTarget{
		address: leader.LinkAddr, config: config, pace: rate.NewLimiter(attackRate, a.attackers),
		dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from)}, Timeout: 5 * time.Second},
	}}
	striking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	r.Cleanup(func() { s.end() })
	for range a.attackers {
		s.attackers.Go(func() {
			for s.pace.Wait(striking) == nil {
				_ = a.once(striking, s.floodTarget) // the hub must end the connection
			}
		})
	}
	return s, stage.Poll(ctx, 2*stage.Allowance, func(context.Context) error {
		if did := s.did.Load(); did < int64(a.attackers) {
			return fmt.Errorf("%d of %d attackers have attacked", did, a.attackers)
		}
		return nil
	})
}

// end ends the flood, and returns the number of attacks.
func (s *floodRun) end() int {
	s.cancel()
	s.attackers.Wait()
	return int(s.did.Load())
}

// silence opens a connection that sends nothing.
func silence(ctx context.Context, to *floodTarget) error {
	conn, err := to.dialer.DialContext(ctx, "tcp", to.address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	to.did.Add(1)
	_, err = io.Copy(io.Discard, conn)
	return errors.Join(err, conn.Close())
}

// unfinished is the number of open calls whose message never ends.
const unfinished = 512

// unfinishedSize is the largest message of a stream, in bytes.
const unfinishedSize = 4<<20 - 1

// unfinishedCalls makes 16 calls over one connection, each of which announces 4 MiB and sends all
// but the last byte as far as the hub accepts it.
func unfinishedCalls(ctx context.Context, to *floodTarget) error {
	conn, err := harness.DialRawGRPC(ctx, to.dialer, to.address, to.config)
	if err != nil {
		return err
	}
	defer conn.Close()
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithTimeout(ctx, stage.Allowance)
	defer cancel()
	for range 16 {
		call, err := conn.Call(fleetv1.FleetService_Enroll_FullMethodName)
		if err != nil {
			return err
		}
		if err := call.Claim(unfinishedSize, false); err != nil {
			return err
		}
		calls.Go(func() { _, _ = call.Send(ctx, make([]byte, unfinishedSize-1), false) })
	}
	to.did.Add(1)
	select {
	case <-conn.Done():
	case <-ctx.Done():
	}
	return ctx.Err()
}

// bomb is 4 MiB of zeros, compressed.
var bomb = sync.OnceValues(func() ([]byte, error) {
	var squeezed bytes.Buffer
	w := gzip.NewWriter(&squeezed)
	_, err := w.Write(make([]byte, unfinishedSize))
	return squeezed.Bytes(), errors.Join(err, w.Close())
})

// bombs sends bomb in one call after another over one connection.
func bombs(ctx context.Context, to *floodTarget) error {
	content, err := bomb()
	if err != nil {
		return err
	}
	conn, err := harness.DialRawGRPC(ctx, to.dialer, to.address, to.config)
	if err != nil {
		return err
	}
	defer conn.Close()
	for to.pace.Wait(ctx) == nil {
		call, err := conn.Call(fleetv1.FleetService_Enroll_FullMethodName, "grpc-encoding", "gzip")
		if err != nil {
			return err
		}
		if err := call.Claim(uint32(len(content)), true); err != nil {
			return err
		}
		if _, err := call.Send(ctx, content, true); err != nil {
			return err
		}
		if err := call.Ended(ctx); err != nil {
			return err
		}
		to.did.Add(1)
	}
	return ctx.Err()
}
