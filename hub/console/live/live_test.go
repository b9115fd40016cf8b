package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// brisk is a timing for tests.
var brisk = Timing{Interval: time.Millisecond, Comment: 20 * time.Millisecond, Write: 200 * time.Millisecond}

// serve serves pages about a topic, and returns the URL and a channel of the errors that end streams.
func serve(t *testing.T, topics *Topics, timing Timing, render func(context.Context) ([]Fragment, error)) (string, <-chan error) {
	t.Helper()
	ended := make(chan error, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := topics.Open("alice")
		defer page.Close()
		ended <- Stream(r.Context(), w, page, timing, render)
	}))
	t.Cleanup(server.Close)
	return server.URL, ended
}

// events returns the lines of a stream that are no comments.
func events(t *testing.T, url string) (<-chan string, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer response.Body.Close()
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			if line := scanner.Text(); line != "" && !strings.HasPrefix(line, ":") {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return lines, cancel
}

// next returns the next line, or fails.
func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("the stream sent nothing for 10 s")
		return ""
	}
}

func TestOnlyChangedFragmentsAreSentAgain(t *testing.T) {
	topics := NewTopics()
	var n atomic.Int64
	url, _ := serve(t, topics, brisk, func(context.Context) ([]Fragment, error) {
		return []Fragment{{ID: "title", HTML: []byte("desktops")}, {ID: "list", HTML: fmt.Appendf(nil, "line one\nline %d", n.Load())}}, nil
	})
	lines, end := events(t, url)
	defer end()
	for _, want := range []string{"event: title", "data: desktops", "event: list", "data: line one", "data: line 0"} {
		if got := next(t, lines); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	n.Store(7)
	topics.Mark("alice")
	topics.Mark("bob") // nobody's
	for _, want := range []string{"event: list", "data: line one", "data: line 7"} {
		if got := next(t, lines); got != want {
			t.Fatalf("after a change: got %q, want %q", got, want)
		}
	}
}

func TestAClosedPageLeavesNothing(t *testing.T) {
	topics := NewTopics()
	url, ended := serve(t, topics, brisk, func(context.Context) ([]Fragment, error) { return nil, nil })
	_, end := events(t, url)
	if topics.Len() != 1 {
		t.Errorf("%d topics have pages, want 1", topics.Len())
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream of a page that was closed ended with %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); topics.Len() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a closed page still has topics")
		}
	}
}

// A client that reads nothing is disconnected, and while it is not, marks never block.
func TestAClientThatDoesNotReadIsDisconnected(t *testing.T) {
	topics := NewTopics()
	var n atomic.Int64
	url, ended := serve(t, topics, brisk, func(context.Context) ([]Fragment, error) {
		return []Fragment{{ID: "list", HTML: []byte(strings.Repeat(fmt.Sprint(n.Add(1)), 1<<20))}}, nil
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: console\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for {
		topics.Mark("alice")
		select {
		case err := <-ended:
			if err == nil || errors.Is(err, context.Canceled) && n.Load() < 2 {
				t.Fatalf("the stream ended with %v", err)
			}
			return
		case <-deadline:
			t.Fatal("a client that reads nothing is still connected")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAFailureToRenderEndsTheStream(t *testing.T) {
	broken := errors.New("broken")
	url, ended := serve(t, NewTopics(), brisk, func(context.Context) ([]Fragment, error) { return nil, broken })
	_, end := events(t, url)
	defer end()
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("the stream ended with %v", err)
	}
}
