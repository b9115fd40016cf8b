package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxIdle is how long an agent's connection may have no call.
const maxIdle = time.Minute

// Server serves FleetService to the agents.
type Server struct {
	fleetv1.UnimplementedFleetServiceServer

	options     Options
	directory   Directory
	meters      *meters
	connections *connections
	authorizer  *authorizer
	terms       *terms
}

// NewServer makes a server; Serve runs it.
func NewServer(options Options, directory Directory) *Server {
	options.setDefaults()
	s := &Server{
		options: options, directory: directory, connections: newConnections(),
		meters: newMeters(options.Limits, options.Timeouts.ClientHello, options.Now),
	}
	s.authorizer = &authorizer{
		options: &s.options, directory: directory, meters: s.meters, connections: s.connections, refusals: rate.NewLimiter(1, 20),
	}
	s.terms = &terms{
		Term: options.Term, leading: s.authorizer.leading, timeout: options.Timeouts.Hello,
		raised: map[types.UID]bool{}, sent: map[types.UID]sentTerm{},
	}
	return s
}

// Serve serves on a listener until the context ends, then drains. It closes
// the listener. A Server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	certs := &certificates{options: &s.options}
	if _, err := certs.current(); err != nil {
		_ = listener.Close()
		return err
	}
	s.authorizer.log = log.FromContext(ctx).WithName("link")
	acceptor := &acceptor{
		options: &s.options, listener: listener, credentials: credentials.NewTLS(certs.serverTLS()), meters: s.meters,
		agents: newConnQueue(listener.Addr()), unauthenticated: newConnQueue(listener.Addr()),
	}
	agents, unauthenticated := s.newGRPCServer(s.agentOptions()...), s.newGRPCServer(s.unauthenticatedOptions()...)
	failed := make(chan error, 3)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { failed <- acceptor.run() })
	serving.Go(func() { failed <- agents.Serve(acceptor.agents) })
	serving.Go(func() { failed <- unauthenticated.Serve(acceptor.unauthenticated) })
	stop := make(chan struct{})
	defer close(stop)
	go wait.Until(s.authorizer.reauthorize, s.options.ReauthorizeInterval, stop)
	go wait.Until(s.checkConnections, max(s.options.Tuning.AckTimeout/ticksPerTimeout, time.Millisecond), stop)
	select {
	case err := <-failed:
		_ = listener.Close()
		agents.Stop()
		unauthenticated.Stop()
		return errors.Join(fmt.Errorf("serving agents: %w", err), s.connections.wait(s.options.Timeouts.Drain))
	case <-ctx.Done():
		_ = listener.Close()
		return s.drain(agents, unauthenticated)
	}
}

func (s *Server) newGRPCServer(options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options,
		grpc.Creds(securedCredentials{credentials.NewTLS(nil)}),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.authorizer.bounded),
		grpc.StreamInterceptor(s.authorizer.streaming),
	)...)
	server.RegisterService(s.authorizer.service(), s)
	return server
}

// bufferBytes is the size of a connection's buffers, of 32 KiB by default: most messages are
// small, and the hub has a connection for each member.
const bufferBytes = 4 << 10

// HTTP/2 flow control windows. They are static: gRPC would raise them up to 16 MiB for
// each stream of a fast connection.
const (
	minWindow        = 1<<16 - 1
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
)

// agentOptions limit callers with an agent's certificate.
func (s *Server) agentOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.options.Limits.MessageBytes),
		grpc.MaxSendMsgSize(s.options.Limits.MessageBytes),
		grpc.MaxConcurrentStreams(maxCallsPerConnection),
		grpc.ConnectionTimeout(s.options.Timeouts.Hello),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: maxIdle, Timeout: 10 * time.Second, MaxConnectionIdle: maxIdle,
		}),
	}
}

// Limits of the connections of unauthenticated callers, which are there to enroll.
const (
	maxUnauthenticatedIdle = 5 * time.Second
	maxUnauthenticatedAge  = 30 * time.Second
	// unauthenticatedBuffer is the size of each buffer, for reading and for writing.
	unauthenticatedBuffer = 4 << 10
)

// unauthenticatedOptions limit callers without an agent's certificate.
func (s *Server) unauthenticatedOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.options.Limits.CallBytes),
		grpc.MaxSendMsgSize(s.options.Limits.CallBytes),
		grpc.MaxConcurrentStreams(maxUnauthenticatedCalls),
		grpc.ConnectionTimeout(s.options.Timeouts.ClientHello),
		grpc.StaticStreamWindowSize(minWindow),
		grpc.StaticConnWindowSize(minWindow),
		grpc.ReadBufferSize(unauthenticatedBuffer),
		grpc.WriteBufferSize(unauthenticatedBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: maxUnauthenticatedIdle,
			MaxConnectionAge: maxUnauthenticatedAge, MaxConnectionAgeGrace: s.options.Timeouts.Call,
		}),
	}
}

// drain refuses new calls, renewals included, and ends every stream within
// Timeouts.Drain, so that agents connect to the next leader. The leader's lock is
// released only after it; a caller without a certificate delays that by at most
// 1/drainShare of the timeout.
func (s *Server) drain(agents, unauthenticated *grpc.Server) error {
	var stopped sync.WaitGroup
	timeout := s.options.Timeouts.Drain
	for server, limit := range map[*grpc.Server]time.Duration{agents: timeout, unauthenticated: timeout / drainShare} {
		stop := time.AfterFunc(limit, server.Stop)
		defer stop.Stop()
		stopped.Go(server.GracefulStop)
	}
	s.connections.endAll(errDraining, timeout/drainShare)
	stopped.Wait()
	return s.connections.wait(timeout)
}
