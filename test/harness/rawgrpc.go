package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	wire "encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// RawGRPC is a gRPC client that a test drives frame by frame, as a client that respects
// nothing but flow control would.
type RawGRPC struct {
	conn   net.Conn
	framer *http2.Framer
	done   chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	// streams that the server allows; 0 before it announced that.
	maxStreams uint32
	// initial window of each stream, and the remaining one of the connection.
	initial, window int64
	open            map[uint32]*RawCall
	next            uint32
	ended           error
}

// RawCall is one call of a RawGRPC; its fields are read once it has ended.
type RawCall struct {
	conn   *RawGRPC
	id     uint32
	window int64
	// over is true once the server has ended it, with Status if it sent one.
	over bool
	// Status is the code in the server's trailers, empty without any.
	Status string
}

// DialRawGRPC opens a connection; config must name h2.
func DialRawGRPC(ctx context.Context, dialer *net.Dialer, address string, config *tls.Config) (*RawGRPC, error) {
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", address, err)
	}
	c := &RawGRPC{
		conn: conn, framer: http2.NewFramer(conn, conn), done: make(chan struct{}),
		initial: 65535, window: 65535, open: map[uint32]*RawCall{}, next: 1,
	}
	c.changed = sync.NewCond(&c.mu)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = conn.Write([]byte(http2.ClientPreface))
	if err := errors.Join(err, c.framer.WriteSettings()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("opening HTTP/2: %w", err)
	}
	go c.read()
	return c, nil
}

// Close ends the connection.
func (c *RawGRPC) Close() {
	_ = c.conn.Close()
	<-c.done
}

// Done returns a channel that is closed once the connection has ended.
func (c *RawGRPC) Done() <-chan struct{} { return c.done }

// MaxStreams returns how many calls the server allows at once.
func (c *RawGRPC) MaxStreams(ctx context.Context) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.await(ctx, func() bool { return c.maxStreams > 0 })
	return c.maxStreams, err
}

// Call begins a call of a method, with additional headers as pairs.
func (c *RawGRPC) Call(method string, headers ...string) (*RawCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	block := &bytes.Buffer{}
	encoder := hpack.NewEncoder(block)
	headers = append([]string{
		":method", "POST", ":scheme", "https", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers",
	}, headers...)
	for i := 0; i+1 < len(headers); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1]}); err != nil {
			return nil, err
		}
	}
	call := &RawCall{conn: c, id: c.next, window: c.initial}
	c.next += 2
	c.open[call.id] = call
	return call, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: call.id, BlockFragment: block.Bytes(), EndHeaders: true})
}

// Claim sends the header of a message of that size, and no content.
func (r *RawCall) Claim(size uint32, compressed bool) error {
	header := make([]byte, 5)
	if compressed {
		header[0] = 1
	}
	wire.BigEndian.PutUint32(header[1:], size)
	return r.conn.write(r, header, false)
}

// Send sends bytes of a message as far as the server's windows go; it ends with
// the context or the call, and returns how many were sent.
func (r *RawCall) Send(ctx context.Context, content []byte, end bool) (sent int, err error) {
	c := r.conn
	for sent < len(content) {
		c.mu.Lock()
		err := c.await(ctx, func() bool { return r.over || min(c.window, r.window) > 0 })
		n := min(len(content)-sent, int(min(c.window, r.window)), 16<<10)
		over := r.over
		if err == nil && !over {
			c.window, r.window = c.window-int64(n), r.window-int64(n)
		}
		c.mu.Unlock()
		if err != nil || over {
			return sent, err
		}
		if err := c.write(r, content[sent:sent+n], end && sent+n == len(content)); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// Ended waits until the server has ended the call.
func (r *RawCall) Ended(ctx context.Context) error {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return r.conn.await(ctx, func() bool { return r.over })
}

func (c *RawGRPC) write(r *RawCall, content []byte, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framer.WriteData(r.id, end, content)
}

// await waits, with the lock held, until the condition is met or the connection ends.
func (c *RawGRPC) await(ctx context.Context, condition func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	for !condition() {
		if c.ended != nil {
			return c.ended
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.changed.Wait()
	}
	return nil
}

// read handles what the server sends until the connection ends.
func (c *RawGRPC) read() {
	defer close(c.done)
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err == nil {
			err = c.handle(frame)
		}
		c.ended = err
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *RawGRPC) handle(frame http2.Frame) error {
	call := c.open[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		c.settings(f)
		return c.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		} else if call != nil {
			call.window += int64(f.Increment)
		}
	case *http2.RSTStreamFrame:
		c.over(call)
	case *http2.MetaHeadersFrame:
		for _, field := range f.Fields {
			if field.Name == "grpc-status" && call != nil {
				call.Status = field.Value
			}
		}
		if f.StreamEnded() {
			c.over(call)
		}
	}
	return nil
}

func (c *RawGRPC) settings(f *http2.SettingsFrame) {
	if streams, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		c.maxStreams = streams
	}
	if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, call := range c.open {
			call.window += int64(window) - c.initial
		}
		c.initial = int64(window)
	}
}

func (c *RawGRPC) over(call *RawCall) {
	if call != nil {
		call.over = true
		delete(c.open, call.id)
	}
}
