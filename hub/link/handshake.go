package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// guardedConn is a connection with what it holds of the meters.
type guardedConn struct {
	net.Conn
	handshake *handshake
	// timeout of the whole handshake, once it has begun.
	timeout time.Duration

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

// greet notes that the client has sent its ClientHello.
func (c *guardedConn) greet() error {
	_ = c.SetDeadline(time.Now().Add(c.timeout))
	return c.handshake.greet()
}

// greeting is a configuration that tells connections when the ClientHello is in.
func greeting(config *tls.Config) *tls.Config {
	config, next := config.Clone(), config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if conn, ok := hello.Conn.(*guardedConn); ok {
			if err := conn.greet(); err != nil {
				return nil, err
			}
		}
		return next(hello)
	}
	return config
}

// shaken is a connection that has shaken hands, with what its client proved.
type shaken struct {
	net.Conn
	info credentials.AuthInfo
}

// shakenCredentials are of connections that have shaken hands before gRPC gets
// them.
type shakenCredentials struct {
	credentials.TransportCredentials
}

func (s shakenCredentials) Clone() credentials.TransportCredentials { return s }

func (shakenCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*shaken)
	if !ok {
		return nil, nil, fmt.Errorf("a connection of %T has not shaken hands", conn)
	}
	return c.Conn, c.info, nil
}

// handshakeFailure returns the label of why a handshake failed.
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
