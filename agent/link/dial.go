package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	maxMessageBytes = 4 << 20
	// dialTimeout includes TCP and TLS. It is not scaled.
	dialTimeout = 10 * time.Second
)

// HTTP/2 flow control windows, the same as the hub's. They are static: to adapt them, gRPC would
// send a ping after each response, which the hub reads and answers, as it does a renewal.
const (
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
)

// dial prepares a connection with the current credential.
func (o *Options) dial(ctx context.Context) (*grpc.ClientConn, *Credential, error) {
	credential, err := o.Credentials.Current(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(o.HubAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(o.clientTLS(credential))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connectionWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("dialing the hub: %w", err)
	}
	if leaf := credential.Certificate.Leaf; leaf != nil {
		metricCertificateExpiry.Set(float64(leaf.NotAfter.Unix()))
	}
	return conn, credential, nil
}

func (o *Options) clientTLS(credential *Credential) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   o.HubServerName,
		RootCAs:      credential.Roots,
		Certificates: []tls.Certificate{credential.Certificate},
	}
}
