package link

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// authorizer admits calls by method, certificate, member and limits.
type authorizer struct {
	options     *Options
	directory   Directory
	meters      *meters
	connections *connections
	// refusals limits how many are logged at the default level.
	refusals *rate.Limiter
	log      logr.Logger
}

// service returns FleetService with methods that authorize the caller before they
// read its message.
func (a *authorizer) service() *grpc.ServiceDesc {
	service := fleetv1.FleetService_ServiceDesc
	service.Methods = slices.Clone(service.Methods)
	for i := range service.Methods {
		m := &service.Methods[i]
		m.Handler = a.unary("/"+service.ServiceName+"/"+m.MethodName, m.Handler)
	}
	return &service
}

// bounded sets the deadline of a unary call, from its first byte on, unless the caller has set a
// sooner one, as agents do. It refuses none:
// gRPC (1.85) does not cancel the context of a call that its tap refuses, which then
// stays in memory for as long as the caller's timeout.
func (a *authorizer) bounded(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == fleetv1.FleetService_Connect_FullMethodName {
		return ctx, nil
	}
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= a.options.Timeouts.Call {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeouts.Call)
	context.AfterFunc(ctx, cancel) // gRPC cancels its parent at the end of the call
	return ctx, nil
}

// unary admits or refuses a call before its message is read. Handlers are reached
// only through it and streaming.
func (a *authorizer) unary(method string, handler grpc.MethodHandler) grpc.MethodHandler {
	name := rules[method].name
	return func(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (response any, err error) {
		defer func() {
			if p := recover(); p != nil {
				response, err = nil, a.panicked(name, p)
			}
		}()
		caller, address, end, err := a.begin(ctx, method)
		if err != nil {
			return nil, a.denied(method, caller, address, err)
		}
		defer end()
		if caller != nil {
			ctx = withCaller(ctx, caller)
		}
		response, err = handler(service, ctx, func(into any) error { return a.read(ctx, method, decode, into) }, nil)
		if err == nil && !a.leading() {
			// Leadership was lost meanwhile: what was granted is not sent.
			err = ErrNotLeading
		}
		if err != nil {
			return nil, a.denied(method, caller, address, err)
		}
		return response, nil
	}
}

// begin checks a unary call's caller and its limits. The caller calls end.
func (a *authorizer) begin(ctx context.Context, method string) (caller *Caller, address string, end func(), err error) {
	caller, address, err = a.admit(ctx, method)
	switch {
	case err != nil:
		return caller, address, nil, err
	case caller == nil:
		return nil, address, func() {}, a.meters.enroll(address)
	}
	end, err = a.meters.call(caller.Member, method == fleetv1.FleetService_RotateCertificate_FullMethodName)
	return caller, address, end, err
}

// read reads the message of a call, and then authorizes the call again, since that may
// have taken long.
func (a *authorizer) read(ctx context.Context, method string, decode func(any) error, into any) error {
	switch err := decode(into); {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return limited("CallTimeout")
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code(err) == codes.ResourceExhausted:
		return limited("CallBytes")
	default:
		return fmt.Errorf("%w: %w", protocol.ErrViolation, err)
	}
	if message, ok := into.(proto.Message); ok && proto.Size(message) > a.options.Limits.CallBytes {
		return limited("CallBytes")
	}
	_, _, err := a.admit(ctx, method)
	return err
}

// streaming admits or refuses a stream.
func (a *authorizer) streaming(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	name := rules[info.FullMethod].name
	defer func() {
		if p := recover(); p != nil {
			err = a.panicked(name, p)
		}
	}()
	caller, address, err := a.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return a.denied(info.FullMethod, caller, address, err)
	}
	meter, end, err := a.meters.stream(caller.Member)
	if err != nil {
		return a.denied(info.FullMethod, caller, address, err)
	}
	defer end()
	if err := a.used(stream.Context(), *caller); err != nil {
		return a.denied(info.FullMethod, caller, address, err)
	}
	return handler(service, &meteredStream{
		ServerStream: stream, ctx: withCaller(stream.Context(), caller), meters: a.meters, meter: meter,
	})
}

// admit identifies and authorizes the caller.
func (a *authorizer) admit(ctx context.Context, method string) (caller *Caller, address string, err error) {
	caller, address, identityErr := peerOf(ctx)
	var access Access
	known := false
	if caller != nil {
		access, known = a.directory.Access(caller.Member)
	}
	err = authorize(method, caller, access, known, a.options.Now())
	switch {
	case err != nil && caller == nil && identityErr != nil && !errors.Is(err, errMethod):
		// Why there is no caller.
		return nil, address, identityErr
	case err != nil:
		return caller, address, err
	case !a.leading():
		return caller, address, ErrNotLeading
	case rules[method].public:
		caller = nil
	}
	return caller, address, uncompressed(ctx)
}

// uncompressed refuses a call that may have compressed messages, before 4 KiB are
// decompressed to 4 MiB: agents never compress. gRPC does not pass that header to
// handlers, so it is read from the transport's stream.
func uncompressed(ctx context.Context) error {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	if !ok {
		return fmt.Errorf("%w: a stream of %T", errCompressed, grpc.ServerTransportStreamFromContext(ctx))
	}
	switch name := stream.RecvCompress(); name {
	case "", encoding.Identity:
		return nil
	default:
		return fmt.Errorf("%w: %s", errCompressed, name)
	}
}

func (a *authorizer) leading() bool { return a.options.Leading == nil || a.options.Leading() }

// used records with the Authority that a certificate is in use, before it is admitted.
func (a *authorizer) used(ctx context.Context, caller Caller) error {
	if a.options.Authority == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.Timeouts.Hello)
	defer cancel()
	if err := a.options.Authority.Used(ctx, caller); err != nil {
		return ofAuthority(fmt.Errorf("recording that a certificate is in use: %w", err))
	}
	return nil
}

// denied counts and logs a refusal, ends the streams of a certificate that is no longer
// valid, and returns the status for the caller. The rate of refusals that are logged at
// the default level is limited.
func (a *authorizer) denied(method string, caller *Caller, address string, err error) error {
	name := rules[method].name
	if name == "" {
		name = "Other"
	}
	countDenied(name, err)
	logger := a.log.WithValues("call", name, "address", address, "reason", err.Error())
	if caller != nil {
		logger = logger.WithValues("clusterUID", caller.Member, "serial", caller.Serial)
		if errors.Is(err, ErrCertificate) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrUnknownMember) {
			a.endStreams(*caller, err)
		}
	}
	if !a.refusals.AllowN(a.options.Now(), 1) {
		logger = logger.V(1)
	}
	logger.Info("call refused")
	return statusOf(err)
}

// panicked returns the status of a call whose handler panicked.
func (a *authorizer) panicked(call string, p any) error {
	metricPanics.WithLabelValues(call).Inc()
	a.log.Error(fmt.Errorf("panic: %v", p), "call failed", "call", call, "stack", string(debug.Stack()))
	return statusOf(errPanic)
}

// endStreams ends the streams that a certificate opened.
func (a *authorizer) endStreams(caller Caller, reason error) {
	for _, c := range a.connections.all() {
		if c.caller.Member == caller.Member && c.caller.Serial == caller.Serial {
			c.end(reason)
		}
	}
}

// reauthorize authorizes every open stream again: a certificate may expire, and a
// member be revoked, while its agent sends nothing.
func (a *authorizer) reauthorize() {
	for _, c := range a.connections.all() {
		access, known := a.directory.Access(c.caller.Member)
		if err := authorize(fleetv1.FleetService_Connect_FullMethodName, &c.caller, access, known, a.options.Now()); err != nil {
			countDenied("Connect", err)
			c.end(err)
		}
	}
}

// meteredStream is a stream with its caller, whose messages beyond the limits are read
// later: the agent's sends block meanwhile, and nothing is lost.
type meteredStream struct {
	grpc.ServerStream
	ctx    context.Context
	meters *meters
	meter  *memberMeter
}

func (m *meteredStream) Context() context.Context { return m.ctx }

func (m *meteredStream) RecvMsg(into any) error {
	if err := m.ServerStream.RecvMsg(into); err != nil {
		return err
	}
	bytes := 0
	if message, ok := into.(proto.Message); ok {
		bytes = proto.Size(message)
	}
	wait := m.meters.message(m.meter, bytes)
	if wait <= 0 {
		return nil
	}
	metricLimited.WithLabelValues("Messages").Inc()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}
