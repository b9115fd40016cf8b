package kubelet

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/desktop/app"
)

// accessVolume is the volume with the desktop's credentials.
const accessVolume = "access"

// serve serves the sample desktop at a Pod's port, over HTTP and HTTPS, with the credentials that the Pod mounts: as a
// container would, it reads them once.
func (k *kubelet) serve(pod *corev1.Pod, address string, port int32) (io.Closer, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		return nil, err
	}
	desktop := sync.OnceValue(func() http.Handler { return k.desktop(pod) })
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { desktop().ServeHTTP(w, r) }),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // probes that connect and say nothing
	}
	// A container's end cuts its connections, those of WebSockets included.
	container := &connections{Listener: listener, open: map[net.Conn]bool{}}
	go func() { _ = server.Serve(container) }()
	return closers{server, container}, nil
}

// desktop returns the sample desktop of a Pod.
func (k *kubelet) desktop(pod *corev1.Pod) http.Handler {
	o := app.Options{Title: pod.Namespace + "/" + pod.Name + " on " + pod.Spec.NodeName}
	for _, v := range pod.Spec.Volumes {
		if v.Name != accessVolume || v.Secret == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), refTimeout)
		defer cancel()
		secret, err := k.client.CoreV1().Secrets(pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			k.logError("reading the credentials", pod, err)
			return http.NotFoundHandler()
		}
		o.Username, o.Password = string(secret.Data[corev1.BasicAuthUsernameKey]), string(secret.Data[corev1.BasicAuthPasswordKey])
	}
	return app.New(o)
}

// connections is a listener that accepts HTTP and HTTPS, and knows its open connections.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool
}

// Accept accepts a connection (net.Listener).
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return &either{Conn: conn, of: c}, nil
}

// Close closes the listener and all connections.
func (c *connections) Close() error {
	err := c.Listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
	return err
}

// either is a connection that speaks TLS if its first byte is that of a handshake.
type either struct {
	net.Conn
	of    *connections
	begin sync.Once
	in    io.Reader
	out   io.Writer
}

// handshake is the first byte of TLS.
const handshake = 22

func (e *either) choose() {
	buffered := bufio.NewReader(e.Conn)
	e.in, e.out = buffered, e.Conn
	if first, err := buffered.Peek(1); err == nil && first[0] == handshake {
		secure := tls.Server(peeked{e.Conn, buffered}, &tls.Config{Certificates: []tls.Certificate{selfSigned()}, MinVersion: tls.VersionTLS12})
		e.in, e.out = secure, secure
	}
}

func (e *either) Read(b []byte) (int, error) {
	e.begin.Do(e.choose)
	return e.in.Read(b)
}

func (e *either) Write(b []byte) (int, error) {
	e.begin.Do(e.choose)
	return e.out.Write(b)
}

func (e *either) Close() error {
	e.of.mu.Lock()
	delete(e.of.open, e.Conn)
	e.of.mu.Unlock()
	return e.Conn.Close()
}

// peeked is a connection whose first bytes are buffered.
type peeked struct {
	net.Conn
	in io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// selfSigned returns the certificate of all desktops, which is signed by no one that browsers trust.
var selfSigned = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // never fails
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "desktop"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err) // the template is ours
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// closers closes all.
type closers []io.Closer

// Close closes all (io.Closer).
func (c closers) Close() error {
	for _, closer := range c {
		_ = closer.Close()
	}
	return nil
}
