package live

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Fragment is a part of a page, which replaces the element with its ID. The ID is also the name of the event.
type Fragment struct {
	ID   string
	HTML []byte
}

// Timing of a stream.
type Timing struct {
	// Interval is the least time between two sends.
	Interval time.Duration
	// Comment is how often a comment keeps the connection alive.
	Comment time.Duration
	// Write is for how long a client may not read.
	Write time.Duration
}

// DefaultTiming is the timing of the console.
var DefaultTiming = Timing{Interval: 250 * time.Millisecond, Comment: 15 * time.Second, Write: 20 * time.Second}

// Stream sends the fragments of a page that render returns: all of them at first, and after each change
// those that are different from what was sent. It returns when the client or the context ends, or render
// fails; the client then reconnects, and a normal page states why.
func Stream(ctx context.Context, w http.ResponseWriter, page *Page, timing Timing, render func(context.Context) ([]Fragment, error)) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies must not buffer it
	s := &stream{control: http.NewResponseController(w), w: w, timing: timing, sent: map[string][]byte{}}
	// The connection may be used for other requests afterwards.
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	comment := time.NewTicker(timing.Comment)
	defer comment.Stop()
	for {
		fragments, err := render(ctx)
		if err != nil {
			return err
		}
		if err := s.send(fragments); err != nil {
			return err
		}
		if err := s.wait(ctx, page, comment.C); err != nil {
			return err
		}
	}
}

// stream is the state of one client.
type stream struct {
	control *http.ResponseController
	w       http.ResponseWriter
	timing  Timing
	sent    map[string][]byte
}

// send sends the fragments that are new.
func (s *stream) send(fragments []Fragment) error {
	var out bytes.Buffer
	for _, f := range fragments {
		if bytes.Equal(s.sent[f.ID], f.HTML) {
			continue
		}
		s.sent[f.ID] = f.HTML
		fmt.Fprintf(&out, "event: %s\n", f.ID)
		for line := range bytes.Lines(f.HTML) {
			fmt.Fprintf(&out, "data: %s\n", bytes.TrimRight(line, "\r\n"))
		}
		out.WriteByte('\n')
	}
	return s.write(out.Bytes())
}

// write writes and flushes, within the time that a client has to read.
func (s *stream) write(b []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timing.Write)); err != nil {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// wait returns once the page has changed, and the interval since the last send has passed.
func (s *stream) wait(ctx context.Context, page *Page, comment <-chan time.Time) error {
	pause := time.NewTimer(s.timing.Interval)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-page.Changed():
			return nil
		case <-comment:
			if err := s.write([]byte(": still here\n\n")); err != nil {
				return err
			}
		}
	}
}
