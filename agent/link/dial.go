package link

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	maxMessageBytes = 4 << 20
	// dialTimeout covers TCP and TLS; it is no promise of ours and not scaled.
	dialTimeout = 10 * time.Second
)

// dial prepares a connection with the certificates as the files say now.
func (o *Options) dial() (*grpc.ClientConn, error) {
	config, err := o.clientTLS()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(o.HubAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("dialling the hub: %w", err)
	}
	return conn, nil
}

func (o *Options) clientTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the agent's certificate: %w", err)
	}
	text, err := os.ReadFile(o.HubCAFile)
	if err != nil {
		return nil, fmt.Errorf("loading the hub's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("loading the hub's CA: no certificate in %s", o.HubCAFile)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   o.HubServerName,
		RootCAs:      pool,
		Certificates: []tls.Certificate{cert},
	}, nil
}
