package link

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
)

// certificates provides each handshake with the current certificate of the server and
// the client authorities, from the Authority or from files.
type certificates struct {
	options *Options

	mu sync.Mutex
	// stamp is stat's of the files that config was loaded from.
	stamp  string
	config *tls.Config
}

// serverTLS requires TLS 1.3. A client certificate is optional and must be valid;
// authorize decides which calls require one, since an agent that enrolls has none. A
// metered connection counts its ClientHello.
func (c *certificates) serverTLS() *tls.Config {
	config := c.config13()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if conn, ok := hello.Conn.(*meteredConn); ok {
			if err := conn.receivedHello(); err != nil {
				return nil, err
			}
		}
		return c.current()
	}
	return config
}

func (c *certificates) config13() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{"h2"},
		Time:       c.options.Now,
		// A resumed session would outlive its certificate.
		SessionTicketsDisabled: true,
	}
}

// current returns the configuration of the Authority, if there is one. Its certificate
// has the whole chain: agents that enroll check the CA in it.
func (c *certificates) current() (*tls.Config, error) {
	if c.options.Authority == nil {
		return c.ofFiles()
	}
	cert, pool, err := c.options.Authority.Certificates()
	if err != nil {
		return nil, fmt.Errorf("getting the server's certificate: %w", err)
	}
	config := c.config13()
	config.Certificates, config.ClientCAs = []tls.Certificate{*cert}, pool
	return config, nil
}

// ofFiles returns the configuration of the files, or the last valid one while they
// cannot be read, for example while they are being replaced.
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

// stat returns the times and sizes of the files.
func (c *certificates) stat() (stamp string, err error) {
	for _, name := range []string{c.options.CertFile, c.options.KeyFile, c.options.ClientCAFile} {
		info, err := os.Stat(name)
		if err != nil {
			return "", fmt.Errorf("checking certificate files: %w", err)
		}
		stamp += fmt.Sprintln(info.ModTime().UnixNano(), info.Size())
	}
	return stamp, nil
}

func (c *certificates) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.options.CertFile, c.options.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading server certificate: %w", err)
	}
	text, err := os.ReadFile(c.options.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("loading client authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("loading client authorities: no certificate in %s", c.options.ClientCAFile)
	}
	config := c.config13()
	config.Certificates, config.ClientCAs = []tls.Certificate{cert}, pool
	return config, nil
}
