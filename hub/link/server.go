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
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxIdle is how long a connection may have no call: an agent's has its stream.
const maxIdle = time.Minute

// Server offers FleetService to the agents. It is a manager.Runnable that
// needs leader election: it listens only while this replica leads.
type Server struct {
	fleetv1.UnimplementedFleetServiceServer

	options   Options
	directory Directory
	base      context.Context
	meters    *meters
	// refusals that are logged for all to see.
	refusals *rate.Limiter

	mu    sync.Mutex
	open  map[*connection]bool
	tasks sync.WaitGroup

	syncs  syncs
	raises raises
}

// NewServer makes a server; Start runs it.
func NewServer(options Options, directory Directory) *Server {
	options.setDefaults()
	return &Server{
		options: options, directory: directory, open: map[*connection]bool{}, base: context.Background(),
		meters: newMeters(options.Limits, options.ClientHelloTimeout, options.Now), refusals: rate.NewLimiter(1, 20),
	}
}

// NeedLeaderElection tells the manager to start this on the leader alone.
func (s *Server) NeedLeaderElection() bool { return true }

// Start listens and serves until the context ends, then drains.
func (s *Server) Start(ctx context.Context) error {
	if err := s.options.validate(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.options.BindAddress)
	if err != nil {
		return fmt.Errorf("listening for agents: %w", err)
	}
	return s.Serve(ctx, listener)
}

// Serve serves on a listener until the context ends, then drains. It closes
// the listener. A Server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	certs := &certificates{
		authority: s.options.Authority, now: s.options.Now,
		certFile: s.options.CertFile, keyFile: s.options.KeyFile, caFile: s.options.ClientCAFile,
	}
	if _, err := certs.current(); err != nil {
		_ = listener.Close()
		return err
	}
	s.base = log.IntoContext(context.WithoutCancel(ctx), log.FromContext(ctx).WithName("link"))
	acceptor := &acceptor{
		listener: listener, credentials: credentials.NewTLS(greeting(certs.serverTLS())), meters: s.meters, trustDomain: s.options.TrustDomain,
		clientHello: s.options.ClientHelloTimeout, handshake: s.options.HelloTimeout,
		agents: newQueue(listener.Addr()), unauthenticated: newQueue(listener.Addr()),
	}
	agents, unauthenticated := s.newGRPCServer(s.forAgents()...), s.newGRPCServer(s.forUnauthenticated()...)
	failed := make(chan error, 3)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { failed <- acceptor.run() })
	serving.Go(func() { failed <- agents.Serve(acceptor.agents) })
	serving.Go(func() { failed <- unauthenticated.Serve(acceptor.unauthenticated) })
	stop := make(chan struct{})
	defer close(stop)
	go s.reviewing(stop)
	select {
	case err := <-failed:
		_ = listener.Close()
		agents.Stop()
		unauthenticated.Stop()
		return errors.Join(fmt.Errorf("serving agents: %w", err), s.wait())
	case <-ctx.Done():
		_ = listener.Close()
		return s.drain(agents, unauthenticated)
	}
}

func (s *Server) newGRPCServer(options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options,
		grpc.Creds(shakenCredentials{credentials.NewTLS(nil)}),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.timed),
		grpc.StreamInterceptor(s.streaming),
	)...)
	server.RegisterService(s.service(), s)
	return server
}

// Windows of what may be under way unread. They don't grow with the line: what
// gRPC would grant a fast one is 16 MiB a stream.
const (
	leastWindow      = 1<<16 - 1
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
)

// forAgents are the limits of callers with an agent's certificate.
func (s *Server) forAgents() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.options.Limits.MessageBytes),
		grpc.MaxSendMsgSize(s.options.Limits.MessageBytes),
		grpc.MaxConcurrentStreams(maxCallsPerConnection),
		grpc.ConnectionTimeout(s.options.HelloTimeout),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: maxIdle,
		}),
	}
}

// What a connection of an unauthenticated caller may last: it is there to enroll.
const (
	maxUnauthenticatedIdle = 5 * time.Second
	maxUnauthenticatedAge  = 30 * time.Second
	// unauthenticatedBuffer is what such a connection reads and writes at once.
	unauthenticatedBuffer = 4 << 10
)

// forUnauthenticated are the limits of callers without an agent's certificate.
func (s *Server) forUnauthenticated() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.options.Limits.CallBytes),
		grpc.MaxSendMsgSize(s.options.Limits.CallBytes),
		grpc.MaxConcurrentStreams(maxUnauthenticatedCalls),
		grpc.ConnectionTimeout(s.options.ClientHelloTimeout),
		grpc.StaticStreamWindowSize(leastWindow),
		grpc.StaticConnWindowSize(leastWindow),
		grpc.ReadBufferSize(unauthenticatedBuffer),
		grpc.WriteBufferSize(unauthenticatedBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: maxUnauthenticatedIdle,
			MaxConnectionAge: maxUnauthenticatedAge, MaxConnectionAgeGrace: s.options.CallTimeout,
		}),
	}
}

// wait lets calls of Members that have begun come to their end, for as long
// as streams get: a leader that is going must not hang on one.
func (s *Server) wait() error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(s.options.DrainTimeout):
		return errors.New("some members' pictures are still busy with what their agents said")
	}
}
