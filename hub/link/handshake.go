package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// meteredConn is a connection that is counted until it is closed.
type meteredConn struct {
	net.Conn
	handshake *handshake
	// timeout of the handshake after the ClientHello.
	timeout time.Duration
	// end ends the count, and may be called repeatedly. It is set between a successful
	// handshake, before which the connection is not counted, and its use by a gRPC server.
	end func()
}

func (c *meteredConn) Close() error {
	if c.end != nil {
		c.end()
	}
	return c.Conn.Close()
}

// receivedHello extends the deadline once the client has sent its ClientHello.
func (c *meteredConn) receivedHello() error {
	_ = c.SetDeadline(time.Now().Add(c.timeout))
	return c.handshake.receivedHello()
}

// secured is a connection after its TLS handshake.
type securedConn struct {
	net.Conn
	info credentials.AuthInfo
}

// securedCredentials are those of connections whose handshake is done before gRPC
// gets them.
type securedCredentials struct {
	credentials.TransportCredentials
}

func (s securedCredentials) Clone() credentials.TransportCredentials { return s }

func (securedCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*securedConn)
	if !ok {
		return nil, nil, fmt.Errorf("a connection of %T has no TLS handshake", conn)
	}
	return c.Conn, c.info, nil
}

// handshakeFailure returns the metric label for a failed handshake.
func handshakeFailure(err error) string {
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &certificate):
		return "Certificate"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "Timeout"
	case errors.Is(err, net.ErrClosed):
		return "Yielded"
	case errors.Is(err, errLimited):
		return "Limited"
	}
	return "Failed"
}
