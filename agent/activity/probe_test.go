package activity

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestURL(t *testing.T) {
	at := func(ip string) *corev1.Pod { return &corev1.Pod{Status: corev1.PodStatus{PodIP: ip}} }
	cases := map[string]struct {
		path     string
		protocol api.Protocol
		pod      *corev1.Pod
		want     string
	}{
		"HTTP":          {"/idle", api.ProtocolHTTP, at("10.1.2.3"), "http://10.1.2.3:6901/idle"},
		"no protocol":   {"/idle", "", at("10.1.2.3"), "http://10.1.2.3:6901/idle"},
		"HTTPS":         {"/api/idle", api.ProtocolHTTPS, at("10.1.2.3"), "https://10.1.2.3:6901/api/idle"},
		"IPv6":          {"/idle", "", at("fd00::1"), "http://[fd00::1]:6901/idle"},
		"a query":       {"/idle?to=1", "", at("10.1.2.3"), "http://10.1.2.3:6901/idle%3Fto=1"},
		"no path":       {"", "", at("10.1.2.3"), ""},
		"no Pod":        {"/idle", "", nil, ""},
		"no address":    {"/idle", "", at(""), ""},
		"a name":        {"/idle", "", at("metadata.internal"), ""},
		"a zone":        {"/idle", "", at("fe80::1%eth0"), ""},
		"more than one": {"/idle", "", at("10.1.2.3@10.0.0.1"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := &api.SessionAssignment{Spec: api.SessionAssignmentSpec{Desktop: api.Desktop{
				Port: 6901, Protocol: c.protocol, Activity: api.Activity{Path: c.path},
			}}}
			if got, ok := URL(a, c.pod); got != c.want || ok != (c.want != "") {
				t.Errorf("%q, %t, want %q", got, ok, c.want)
			}
		})
	}
}

// answering is a desktop with that answer.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

func TestAnswers(t *testing.T) {
	const unknown = -1
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a redirection was followed")
		_, _ = fmt.Fprint(w, `{"idleSeconds": 1}`)
	}))
	defer elsewhere.Close()
	cases := map[string]struct {
		desktop http.HandlerFunc
		want    time.Duration
	}{
		"in use":            {answering(200, `{"idleSeconds": 0}`), 0},
		"with a fraction":   {answering(200, `{"idleSeconds": 12.5}`), 12500 * time.Millisecond},
		"with other fields": {answering(200, `{"user": "jane", "idleSeconds": 60}`), time.Minute},
		"forever":           {answering(200, `{"idleSeconds": 1e300}`), maxIdle},
		"negative":          {answering(200, `{"idleSeconds": -1}`), unknown},
		"no number":         {answering(200, `{"idleSeconds": "60"}`), unknown},
		"null":              {answering(200, `{"idleSeconds": null}`), unknown},
		"too large":         {answering(200, `{"idleSeconds": 1e999}`), unknown},
		"absent":            {answering(200, `{}`), unknown},
		"empty":             {answering(200, ``), unknown},
		"a page":            {answering(200, `<html>busy</html>`), unknown},
		"a list":            {answering(200, `[{"idleSeconds": 1}]`), unknown},
		"two answers":       {answering(200, `{"idleSeconds": 1}{"idleSeconds": 2}`), unknown},
		"not found":         {answering(404, `{"idleSeconds": 1}`), unknown},
		"no content":        {answering(204, ``), unknown},
		"broken":            {answering(500, `{"idleSeconds": 1}`), unknown},
		"huge":              {answering(200, `{"idleSeconds": 1, "x": "`+strings.Repeat("x", maxBody)+`"}`), unknown},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, unknown},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unknown},
		"huge header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			_, _ = fmt.Fprint(w, `{"idleSeconds": 1}`)
		}, unknown},
	}
	client := newClient(defaults.Timeout)
	for name, c := range cases {
		for _, start := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
			server := start(c.desktop)
			t.Run(name+" by "+strings.SplitN(server.URL, ":", 2)[0], func(t *testing.T) {
				defer server.Close()
				got, err := fetchIdle(context.Background(), client, server.URL)
				if (err != nil) != (c.want == unknown) || err == nil && got != c.want {
					t.Errorf("%s, %v, want %s", got, err, c.want)
				}
			})
		}
	}
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat(" ", 1024)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if _, err := fetchIdle(context.Background(), newClient(10*time.Second), server.URL); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("it was read until %v", err)
	}
}

func TestASlowDesktopIsNotWaitedFor(t *testing.T) {
	for name, slow := range map[string]http.HandlerFunc{
		"before its header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in its body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, `{"idleSeconds":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(slow)
			defer server.Close()
			if _, err := fetchIdle(context.Background(), newClient(50*time.Millisecond), server.URL); err == nil {
				t.Error("it answered")
			}
		})
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy got a request") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	// A loopback address is never reached by proxy anyway; this one is unused.
	_, err := fetchIdle(context.Background(), newClient(50*time.Millisecond), "http://192.0.2.1:6901/idle")
	if err == nil {
		t.Error("it was answered")
	}
}

func FuzzParse(f *testing.F) {
	for _, body := range []string{`{"idleSeconds": 12.5}`, `{"idleSeconds": -1}`, `{"idleSeconds": 1e308}`, `[]`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		idle, err := parse(body)
		if idle < 0 || idle > maxIdle || err != nil && idle != 0 {
			t.Errorf("%q means %s, %v", body, idle, err)
		}
	})
}
