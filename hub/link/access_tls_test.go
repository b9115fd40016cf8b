package link_test

import (
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTLSIsOfTheLatestVersionAndNeverResumed(t *testing.T) {
	w := serve(t, nil)
	old := w.tls(w.agent("own"))
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if conn, err := tls.Dial("tcp", w.address, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 was accepted")
	}
	config := w.tls(w.agent("own"))
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		conn, err := tls.Dial("tcp", w.address, config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("a session was resumed")
		}
		_ = conn.Close()
	}
}

func TestCertificatesAreVerifiedByTheHubsClock(t *testing.T) {
	w := serve(t, nil)
	w.do(func() { w.ahead = 25 * time.Hour })
	if _, err := connect(t.Context(), w.client(w.agent("own"))); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate that has expired by the hub's clock: %v", err)
	}
	w.do(func() { w.ahead = -90 * time.Minute })
	if _, err := connect(t.Context(), w.client(w.agent("own"))); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate that is not valid yet by the hub's clock: %v", err)
	}
	w.do(func() { w.ahead = 0 })
	if _, err := connect(t.Context(), w.client(w.agent("own"))); err != nil {
		t.Error(err)
	}
}
