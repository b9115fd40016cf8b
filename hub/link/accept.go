package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// acceptor shakes hands with whoever connects, and hands each connection to the
// gRPC server for its kind of caller: gRPC has one set of limits a server, and
// knows who calls only after the handshake.
type acceptor struct {
	listener    net.Listener
	credentials credentials.TransportCredentials
	meters      *meters
	trustDomain string
	// clientHello and handshake are how long the first message, and then the
	// rest of it, may take.
	clientHello, handshake time.Duration

	agents, unauthenticated *queue
}

// run accepts until the listener is closed, and then waits for the handshakes
// that it ends.
func (a *acceptor) run() error {
	var handshakes sync.WaitGroup
	defer handshakes.Wait()
	defer a.meters.abortHandshakes()
	for {
		conn, err := a.accept()
		if err != nil {
			return err
		}
		handshakes.Go(func() { a.receive(conn) })
	}
}

// Waits after an error that goes by, of too many open files say.
const leastAcceptWait, mostAcceptWait = 5 * time.Millisecond, time.Second

func (a *acceptor) accept() (net.Conn, error) {
	wait := leastAcceptWait
	for {
		conn, err := a.listener.Accept()
		var passing interface{ Temporary() bool }
		if err == nil || !errors.As(err, &passing) || !passing.Temporary() {
			return conn, err
		}
		time.Sleep(wait)
		wait = min(2*wait, mostAcceptWait)
	}
}

// receive shakes hands with one client, and hands its connection on.
func (a *acceptor) receive(raw net.Conn) {
	if err := a.shake(raw); err != nil {
		_ = raw.Close()
		// Those that were refused before are counted by limit.
		if !errors.Is(err, errLimited) {
			metricHandshakes.WithLabelValues(handshakeFailure(err)).Inc()
		}
	}
}

func (a *acceptor) shake(raw net.Conn) error {
	address := raw.RemoteAddr().String()
	handshake, err := a.meters.handshake(address, func() { _ = raw.Close() })
	if err != nil {
		return err
	}
	defer handshake.end()
	guarded := &guardedConn{Conn: raw, handshake: handshake, timeout: a.handshake}
	_ = raw.SetDeadline(time.Now().Add(a.clientHello))
	conn, info, err := a.credentials.ServerHandshake(guarded)
	if err != nil {
		return err
	}
	caller, err := a.count(guarded, info, address)
	if err != nil {
		return err
	}
	to := a.unauthenticated
	if caller != nil {
		to = a.agents
	}
	if !to.put(&shaken{Conn: conn, info: info}) {
		_ = conn.Close()
	}
	return nil
}

// count keeps count of a connection, by the member that it is of, until it is
// closed.
func (a *acceptor) count(guarded *guardedConn, info credentials.AuthInfo, address string) (*Caller, error) {
	secured, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, fmt.Errorf("a connection of %T is not of TLS", info)
	}
	// A certificate that names no member makes an unauthenticated caller like any
	// other: its calls are refused with a reason, and not by a closed connection.
	caller, err := callerOfState(&secured.State, a.trustDomain)
	if err != nil {
		caller = nil
	}
	end, err := a.meters.connection(caller, address)
	if err != nil {
		return nil, err
	}
	guarded.hold(end)
	outcome := "Unauthenticated"
	if caller != nil {
		outcome = "Member"
	}
	metricHandshakes.WithLabelValues(outcome).Inc()
	return caller, nil
}

// queue is the listener of a gRPC server whose connections others accept.
type queue struct {
	address     net.Addr
	connections chan net.Conn
	closed      chan struct{}
	close       func()
}

func newQueue(address net.Addr) *queue {
	q := &queue{address: address, connections: make(chan net.Conn), closed: make(chan struct{})}
	q.close = sync.OnceFunc(func() { close(q.closed) })
	return q
}

// put hands a connection over, unless the queue is closed.
func (q *queue) put(conn net.Conn) bool {
	select {
	case q.connections <- conn:
		return true
	case <-q.closed:
		return false
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.connections:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.close()
	return nil
}

func (q *queue) Addr() net.Addr { return q.address }
