package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxMessageBytes bounds a message of either direction.
const maxMessageBytes = 4 << 20

// Server offers FleetService to the agents. It is a manager.Runnable that
// needs leader election: it listens only while this replica leads.
type Server struct {
	fleetv1.UnimplementedFleetServiceServer

	options   Options
	directory Directory
	base      context.Context

	mu    sync.Mutex
	open  map[*connection]bool
	tasks sync.WaitGroup
}

// NewServer makes a server; Start runs it.
func NewServer(options Options, directory Directory) *Server {
	options.setDefaults()
	return &Server{options: options, directory: directory, open: map[*connection]bool{}}
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
	files := &certificates{certFile: s.options.CertFile, keyFile: s.options.KeyFile, caFile: s.options.ClientCAFile}
	if _, err := files.current(); err != nil {
		_ = listener.Close()
		return err
	}
	s.base = log.IntoContext(context.WithoutCancel(ctx), log.FromContext(ctx).WithName("link"))
	server := s.newGRPCServer(credentials.NewTLS(files.serverTLS()))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		server.Stop()
		return errors.Join(fmt.Errorf("serving agents: %w", err), s.wait())
	case <-ctx.Done():
		return s.drain(server)
	}
}

func (s *Server) newGRPCServer(creds credentials.TransportCredentials) *grpc.Server {
	server := grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(16),
		grpc.MaxHeaderListSize(16<<10),
		grpc.ConnectionTimeout(s.options.HelloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(recoverUnary),
	)
	fleetv1.RegisterFleetServiceServer(server, s)
	return server
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

// RenewLease records an agent's sign of life.
func (s *Server) RenewLease(ctx context.Context, request *fleetv1.RenewLeaseRequest) (*fleetv1.RenewLeaseResponse, error) {
	member, err := callerOf(ctx, s.options.TrustDomain)
	if err != nil {
		return nil, denied("RenewLease", err)
	}
	grant, err := s.directory.Renew(member, Renewal{
		Instance: request.GetInstance(), Sync: request.GetSync(), TrustBundleHash: request.GetTrustBundleHash(),
	})
	if err != nil {
		return nil, denied("RenewLease", err)
	}
	return &fleetv1.RenewLeaseResponse{HubTerm: s.options.HubTerm(), Lease: durationpb.New(grant.Lease)}, nil
}

func denied(call string, err error) error {
	st := statusOf(err)
	metricDenied.WithLabelValues(call, status.Code(st).String()).Inc()
	return st
}

func recoverUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "call failed", "method", info.FullMethod, "stack", string(debug.Stack()))
			response, err = nil, status.Error(codes.Internal, "internal error")
		}
	}()
	return handler(ctx, request)
}
