package console

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// stream opens the stream of a page as a user, and returns its lines.
func (s *site) stream(ctx context.Context, user, page string) <-chan string {
	s.t.Helper()
	server := httptest.NewServer(s.handler)
	s.t.Cleanup(server.Close)
	r := s.request(user, http.MethodGet, "/events?page="+page, nil).Clone(ctx)
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", strings.TrimPrefix(server.URL, "http://"), ""
	response, err := server.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%s: %s, %s", page, response.Status, response.Header.Get("Content-Type"))
	}
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// expect reads lines until one contains a text.
func expect(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", text)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			t.Fatalf("no %q within 10 s", text)
		}
	}
}

func TestAnOpenPageShowsWhatChanges(t *testing.T) {
	s := open(t, session("alice", "a", suspended), newTemplate("browser", nil))
	s.console.draining = t.Context()
	key := types.NamespacedName{Namespace: "desktops", Name: "a"}
	for page, topic := range map[string]string{"home": aboutUser("alice"), "s/desktops/a": aboutSession(key)} {
		lines := s.stream(t.Context(), "alice", page)
		expect(t, lines, "suspended")
		var changed v1alpha1.VDISession
		if err := s.console.live.Get(t.Context(), key, &changed); err != nil {
			t.Fatal(err)
		}
		changed.Spec.OperatingMode = v1alpha1.ModeRunning
		s.update(&changed)
		s.console.topics.Mark(topic)
		expect(t, lines, "waiting")
		suspended(&changed)
		s.update(&changed)
	}
}

// A page of a session that is gone is left, and not shown as it was.
func TestAPageEndsWithItsSession(t *testing.T) {
	s := open(t, session("alice", "a", running), newTemplate("browser", nil))
	s.console.draining = t.Context()
	lines := s.stream(t.Context(), "alice", "s/desktops/a")
	expect(t, lines, "running")
	if err := s.store.Delete(t.Context(), session("alice", "a", nil)); err != nil {
		t.Fatal(err)
	}
	s.console.topics.Mark(aboutSession(types.NamespacedName{Namespace: "desktops", Name: "a"}))
	expect(t, lines, "event: gone")
}

// A replica that ends closes its streams, so that browsers connect to another one.
func TestStreamsEndWithTheReplica(t *testing.T) {
	s := open(t)
	draining, drain := context.WithCancel(t.Context())
	s.console.draining = draining
	lines := s.stream(t.Context(), "alice", "home")
	expect(t, lines, "event: desktops")
	drain()
	late := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-lines:
			if !ok {
				return
			}
		case <-late:
			t.Fatal("the stream is open 10 s later")
		}
	}
}

// Pages stay while the hub's API server does not answer, and say since when.
func TestAnOutageOfTheAPIServerIsShown(t *testing.T) {
	s := open(t, session("alice", "a", running), newTemplate("browser", nil))
	s.console.draining = t.Context()
	var down atomic.Bool
	asked := clocktesting.NewFakeClock(time.Now())
	s.console.answers.Clock, s.console.answers.Run = asked, func(context.Context) error {
		if down.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	go func() { _ = s.console.answers.Start(t.Context()) }()
	const notice = "has not answered since"
	lines := s.stream(t.Context(), "alice", "home")
	expect(t, lines, "event: away")
	if body := s.do(s.request("alice", http.MethodGet, "/", nil)).Body.String(); strings.Contains(body, notice) {
		t.Errorf("without an outage: %s", body)
	}
	down.Store(true)
	await(t, asked.HasWaiters)
	asked.Step(askEvery)
	expect(t, lines, notice)
	s.unanswered = true
	for _, page := range []string{"/", "/s/desktops/a", "/login"} {
		if w := s.do(s.request("alice", http.MethodGet, page, nil)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), notice) {
			t.Errorf("%s during an outage: %d %s", page, w.Code, w.Body)
		}
	}
	if w := s.do(s.request("bob", http.MethodGet, "/", nil)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "not known at the moment") {
		t.Errorf("what a user may start is not known: %d %s", w.Code, w.Body)
	}
	down.Store(false)
	await(t, asked.HasWaiters)
	asked.Step(askEvery)
	expect(t, lines, "event: away")
	if body := s.do(s.request("alice", http.MethodGet, "/", nil)).Body.String(); strings.Contains(body, notice) {
		t.Errorf("after the outage: %s", body)
	}
}

func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not hold within 10 s")
		}
	}
}
