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
// authorities as the Authority, or else the files, say by then.
type certificates struct {
	authority                 Authority
	certFile, keyFile, caFile string
	// now is what certificates are judged by.
	now func() time.Time

	mu     sync.Mutex
	stamp  [3]fileStamp
	config *tls.Config
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// serverTLS asks for nothing less than TLS 1.3. A client certificate that is
// shown must be a good one; which calls ask for one is for authorise to say,
// since an agent that enrols has none yet.
func (c *certificates) serverTLS() *tls.Config {
	config := c.config13()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current() }
	return config
}

func (c *certificates) config13() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{"h2"},
		Time:       c.now,
		// A resumed session would outlive the certificate that it began with.
		SessionTicketsDisabled: true,
	}
}

// current is the configuration of the Authority, if there is one, which
// serves with its whole chain: agents that enrol look for the CA in it.
func (c *certificates) current() (*tls.Config, error) {
	if c.authority == nil {
		return c.ofFiles()
	}
	cert, pool, err := c.authority.Certificates()
	if err != nil {
		return nil, fmt.Errorf("asking for the server's certificate: %w", err)
	}
	config := c.config13()
	config.Certificates, config.ClientCAs = []tls.Certificate{*cert}, pool
	return config, nil
}

// ofFiles is the configuration of the files as they are; while they can't be
// read, in the middle of being replaced say, of the last that could.
func (c *certificates) ofFiles() (*tls.Config, error) {
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
	config := c.config13()
	config.Certificates, config.ClientCAs = []tls.Certificate{cert}, pool
	return config, nil
}
