package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// acceptor does the TLS handshakes, and passes each connection to the gRPC server for
// its kind of caller: a gRPC server has one set of limits, and identifies its callers
// only after the handshake.
type acceptor struct {
	options     *Options
	listener    net.Listener
	credentials credentials.TransportCredentials
	meters      *meters

	agents, unauthenticated *connQueue
}

// run accepts connections until the listener is closed, then aborts the handshakes in
// progress and waits for them.
func (a *acceptor) run() error {
	var handshakes sync.WaitGroup
	defer handshakes.Wait()
	defer a.meters.abortHandshakes()
	for {
		conn, err := a.accept()
		if err != nil {
			return err
		}
		handshakes.Go(func() { a.handleRawConn(conn) })
	}
}

// Backoff after a temporary error, such as too many open files.
const minAcceptBackoff, maxAcceptBackoff = 5 * time.Millisecond, time.Second

func (a *acceptor) accept() (net.Conn, error) {
	wait := minAcceptBackoff
	for {
		conn, err := a.listener.Accept()
		var temporary interface{ Temporary() bool }
		if err == nil || !errors.As(err, &temporary) || !temporary.Temporary() {
			return conn, err
		}
		time.Sleep(wait)
		wait = min(2*wait, maxAcceptBackoff)
	}
}

// handleRawConn does the handshake of one connection, and closes it if that fails.
func (a *acceptor) handleRawConn(raw net.Conn) {
	if err := a.serverHandshake(raw); err != nil {
		_ = raw.Close()
		// limited has counted the others.
		if !errors.Is(err, errLimited) {
			metricHandshakes.WithLabelValues(handshakeFailure(err)).Inc()
		}
	}
}

func (a *acceptor) serverHandshake(raw net.Conn) error {
	address := raw.RemoteAddr().String()
	handshake, err := a.meters.handshake(address, func() { _ = raw.Close() })
	if err != nil {
		return err
	}
	defer handshake.end()
	metered := &meteredConn{Conn: raw, handshake: handshake, timeout: a.options.Timeouts.Hello}
	_ = raw.SetDeadline(time.Now().Add(a.options.Timeouts.ClientHello))
	conn, info, err := a.credentials.ServerHandshake(metered)
	if err != nil {
		return err
	}
	identified, err := a.count(metered, info, address)
	if err != nil {
		return err
	}
	to := a.unauthenticated
	if identified.caller != nil {
		to = a.agents
	}
	if !to.put(&securedConn{Conn: conn, info: identified}) {
		_ = conn.Close()
	}
	return nil
}

// count counts a connection for its caller until it is closed.
func (a *acceptor) count(metered *meteredConn, info credentials.AuthInfo, address string) (identified identifiedPeer, err error) {
	secured, ok := info.(credentials.TLSInfo)
	if !ok {
		return identified, fmt.Errorf("a connection of %T is not of TLS", info)
	}
	// The calls of a certificate that names no member are refused with a reason, not
	// by a closed connection.
	identified = identify(secured, a.options.TrustDomain)
	if metered.end, err = a.meters.connection(identified.caller, address); err != nil {
		return identified, err
	}
	outcome := "Unauthenticated"
	if identified.caller != nil {
		outcome = "Member"
	}
	metricHandshakes.WithLabelValues(outcome).Inc()
	return identified, nil
}

// connQueue is the listener of a gRPC server whose connections the acceptor accepts.
type connQueue struct {
	address     net.Addr
	connections chan net.Conn
	closed      chan struct{}
	close       func()
}

func newConnQueue(address net.Addr) *connQueue {
	q := &connQueue{address: address, connections: make(chan net.Conn), closed: make(chan struct{})}
	q.close = sync.OnceFunc(func() { close(q.closed) })
	return q
}

// put passes a connection to the gRPC server, unless the queue is closed.
func (q *connQueue) put(conn net.Conn) bool {
	select {
	case q.connections <- conn:
		return true
	case <-q.closed:
		return false
	}
}

func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.connections:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *connQueue) Close() error {
	q.close()
	return nil
}

func (q *connQueue) Addr() net.Addr { return q.address }
