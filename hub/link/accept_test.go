package link

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// failingListener fails so often before it hands out a connection.
type failingListener struct {
	net.Listener
	failures []error
}

func (f *failingListener) Accept() (net.Conn, error) {
	if len(f.failures) > 0 {
		err := f.failures[0]
		f.failures = f.failures[1:]
		return nil, err
	}
	return &fakeConn{}, nil
}

func TestTooManyOpenFilesDoNotCloseTheListener(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	for name, tc := range map[string]struct {
		failures []error
		want     error
	}{
		"too many open files, for a while": {[]error{full, full, full}, nil},
		"it is closed":                     {[]error{net.ErrClosed}, net.ErrClosed},
		"too many open files, and closed":  {[]error{full, net.ErrClosed}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			a := &acceptor{listener: &failingListener{failures: tc.failures}}
			conn, err := a.accept()
			if !errors.Is(err, tc.want) || (conn == nil) != (tc.want != nil) {
				t.Errorf("%v, %v", conn, err)
			}
		})
	}
}

func TestAClosedQueueAcceptsNoConnections(t *testing.T) {
	q := newConnQueue(&net.TCPAddr{})
	put := make(chan bool)
	go func() { put <- q.put(&fakeConn{}) }()
	if conn, err := q.Accept(); err != nil || conn == nil || !<-put {
		t.Fatalf("%v, %v", conn, err)
	}
	_ = q.Close()
	_ = q.Close()
	if q.put(&fakeConn{}) {
		t.Error("a connection was accepted that is not served")
	}
	if _, err := q.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}
