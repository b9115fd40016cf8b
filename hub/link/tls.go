package link

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificates gives each handshake the server's certificate and the client
// authorities as the files say by then.
type certificates struct {
	certFile, keyFile, caFile string

	mu     sync.Mutex
	stamp  [3]fileStamp
	config *tls.Config
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// serverTLS asks for nothing less than TLS 1.3 and a verified client
// certificate.
func (c *certificates) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current()
		},
	}
}

// current is the configuration of the files as they are; while they can't be
// read, in the middle of being replaced say, of the last that could.
func (c *certificates) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp, err := c.stat()
	if err == nil && stamp == c.stamp && c.config != nil {
		return c.config, nil
	}
	config, err := c.load()
	switch {
	case err == nil:
		c.config, c.stamp = config, stamp
	case c.config == nil:
		return nil, err
	}
	return c.config, nil
}

func (c *certificates) stat() (stamp [3]fileStamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile, c.caFile} {
		info, err := os.Stat(name)
		if err != nil {
			return stamp, fmt.Errorf("looking at certificate files: %w", err)
		}
		stamp[i] = fileStamp{modified: info.ModTime(), size: info.Size()}
	}
	return stamp, nil
}

func (c *certificates) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("loading server certificate: %w", err)
	}
	text, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("loading client authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("loading client authorities: no certificate in %s", c.caFile)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{cert},
		ClientCAs:    pool,
		// A resumed session would outlive the certificate that it began with.
		SessionTicketsDisabled: true,
	}, nil
}
