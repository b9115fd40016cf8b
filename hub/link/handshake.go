package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// guardedListener hands out connections that are counted until they are
// closed.
type guardedListener struct {
	net.Listener
}

// Accept is net.Listener's.
func (l guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: conn}, nil
}

// guardedConn is a connection with what it holds of the meters.
type guardedConn struct {
	net.Conn

	mu     sync.Mutex
	closed bool
	end    func()
}

// hold keeps something until the connection is closed.
func (c *guardedConn) hold(end func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.end = end
	}
	c.mu.Unlock()
	if closed {
		end()
	}
}

// Close is net.Conn's.
func (c *guardedConn) Close() error {
	c.mu.Lock()
	end := c.end
	c.closed, c.end = true, nil
	c.mu.Unlock()
	if end != nil {
		end()
	}
	return c.Conn.Close()
}

// guardedCredentials shake hands with as many as the meters allow.
type guardedCredentials struct {
	credentials.TransportCredentials
	meters      *meters
	trustDomain string
}

func newGuardedCredentials(config *tls.Config, m *meters, trustDomain string) credentials.TransportCredentials {
	return &guardedCredentials{TransportCredentials: credentials.NewTLS(config), meters: m, trustDomain: trustDomain}
}

// Clone is credentials.TransportCredentials'.
func (g *guardedCredentials) Clone() credentials.TransportCredentials {
	return &guardedCredentials{TransportCredentials: g.TransportCredentials.Clone(), meters: g.meters, trustDomain: g.trustDomain}
}

// ServerHandshake refuses what is too much before any of TLS is reckoned. gRPC
// closes the connection on an error.
func (g *guardedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	address := raw.RemoteAddr().String()
	end, err := g.meters.handshake(address)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	conn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		metricHandshakes.WithLabelValues(handshakeFailure(err)).Inc()
		return nil, nil, err
	}
	if err := g.count(raw, info, address); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, info, nil
}

// count keeps count of a connection, by the member that it is of, until it is
// closed.
func (g *guardedCredentials) count(raw net.Conn, info credentials.AuthInfo, address string) error {
	guarded, ok := raw.(*guardedConn)
	secured, isTLS := info.(credentials.TLSInfo)
	if !ok || !isTLS {
		return fmt.Errorf("a connection of %T and %T is not guarded", raw, info)
	}
	// A certificate that names nobody makes a stranger like any other: what it
	// calls is refused with a better word than a closed connection.
	caller, err := callerOfState(&secured.State, g.trustDomain)
	if err != nil {
		caller = nil
	}
	end, err := g.meters.connection(caller, address)
	if err != nil {
		return err
	}
	guarded.hold(end)
	metricHandshakes.WithLabelValues(handshakeOf(caller)).Inc()
	return nil
}

func handshakeOf(caller *Caller) string {
	if caller == nil {
		return "Stranger"
	}
	return "Member"
}

// handshakeFailure is a word on why it failed, of a few.
func handshakeFailure(err error) string {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return "Certificate"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "Timeout"
	}
	return "Failed"
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
