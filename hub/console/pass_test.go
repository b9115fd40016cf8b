package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/reach"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const doorOrigin = "https://a-0123456789.eu-west.desktops.example.com"

// placed makes a session run in the member eu-west.
func placed(s *v1alpha1.VDISession) {
	running(s)
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu-west", ClusterUID: "uid-eu-west", Epoch: 7}
	s.Status.Endpoint.URL = doorOrigin + "/vnc.html"
}

// member returns a member, with a door if that is set.
func member(door bool) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu-west", UID: "uid-eu-west"}}
	mc.Spec.IngressDomain, mc.Spec.IngressScheme, mc.Status.Door = "eu-west.desktops.example.com", "https", door
	return mc
}

// signed are the passes that a console has signed.
type signed []visit.Pass

// withPasses lets the console sign passes, and returns them and the events.
func (s *site) withPasses() (*signed, *events.FakeRecorder) {
	var made signed
	recorder := events.NewFakeRecorder(8)
	s.console.passes = passes{
		sign:     func(p visit.Pass) (string, error) { made = append(made, p); return "signed", nil },
		recorder: recorder, prober: reach.NewProber(),
	}
	return &made, recorder
}

// asked returns the answer to a page that requests a pass.
func (s *site) asked(user, path, origin, challenge string) *httptest.ResponseRecorder {
	return s.do(s.request(user, http.MethodPost, path, url.Values{"origin": {origin}, "challenge": {challenge}}))
}

func TestAPassIsForTheSessionAndTheBrowser(t *testing.T) {
	s := open(t, session("alice", "a", placed), member(true))
	made, recorder := s.withPasses()
	challenge := visit.Challenge("nonce")
	w := s.asked("alice", "/s/desktops/a/pass", doorOrigin, challenge)
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || answer["pass"] != "signed" {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	got := (*made)[0]
	if issued := time.Unix(got.IssuedAt, 0); time.Since(issued) > time.Minute || got.End().Sub(issued) > time.Hour {
		t.Errorf("it is valid from %s to %s, the login for an hour", issued, got.End())
	}
	got.IssuedAt, got.Expires = 0, 0
	if want := (visit.Pass{SessionUID: "uid-a", Epoch: 7, User: "alice", Challenge: challenge}); got != want {
		t.Errorf("the pass is %+v", got)
	}
	if len(recorder.Events) > 0 {
		t.Errorf("an event: %s", <-recorder.Events)
	}
}

func TestNoPass(t *testing.T) {
	suspendedThere := func(s *v1alpha1.VDISession) { placed(s); suspended(s) }
	moved := member(true)
	moved.UID = "uid-of-a-later-one"
	challenge := visit.Challenge("nonce")
	for name, tc := range map[string]struct {
		session           *v1alpha1.VDISession
		member            *v1alpha1.MemberCluster
		user              string
		origin, challenge string
		code              int
	}{
		"another user's":         {session("bob", "a", placed), member(true), "alice", doorOrigin, challenge, http.StatusNotFound},
		"no login":               {session("alice", "a", placed), member(true), "", doorOrigin, challenge, http.StatusUnauthorized},
		"another host":           {session("alice", "a", placed), member(true), "alice", "https://evil.example.com", challenge, http.StatusConflict},
		"suspended":              {session("alice", "a", suspendedThere), member(true), "alice", doorOrigin, challenge, http.StatusConflict},
		"no door":                {session("alice", "a", placed), member(false), "alice", doorOrigin, challenge, http.StatusConflict},
		"another member":         {session("alice", "a", placed), moved, "alice", doorOrigin, challenge, http.StatusConflict},
		"no challenge":           {session("alice", "a", placed), member(true), "alice", doorOrigin, "", http.StatusBadRequest},
		"no hash as a challenge": {session("alice", "a", placed), member(true), "alice", doorOrigin, "nonce", http.StatusBadRequest},
	} {
		s := open(t, tc.session, tc.member)
		made, _ := s.withPasses()
		s.denies["alice list desktops"], s.denies["alice get desktops"] = true, true
		if w := s.asked(tc.user, "/s/desktops/a/pass", tc.origin, tc.challenge); w.Code != tc.code || len(*made) > 0 {
			t.Errorf("%s: %d %s, and %d passes", name, w.Code, w.Body, len(*made))
		}
	}
}

// Whoever may open others' desktops leaves a trace on the session.
func TestAVisitToAnotherUsersDesktop(t *testing.T) {
	s := open(t, session("alice", "a", placed), member(true))
	made, _ := s.withPasses()
	s.denies["olivia get desktops"] = true
	if w := s.asked("olivia", "/s/desktops/a/pass", doorOrigin, visit.Challenge("nonce")); w.Code != http.StatusNotFound || len(*made) > 0 {
		t.Errorf("with the right to list sessions alone: %d", w.Code)
	}
	page := s.do(navigated(s.request("olivia", http.MethodGet, "/s/desktops/a", nil))).Body.String()
	if strings.Contains(page, "data-origin") {
		t.Error("the page opens it")
	}
	s = open(t, session("alice", "a", placed), member(true))
	made, recorder := s.withPasses()
	page = s.do(navigated(s.request("olivia", http.MethodGet, "/s/desktops/a", nil))).Body.String()
	if !strings.Contains(page, `data-origin="`+doorOrigin+`"`) || !strings.Contains(page, "Open the desktop of alice") || strings.Contains(page, "data-mine") {
		t.Errorf("the page is %s", page)
	}
	if w := s.asked("olivia", "/s/desktops/a/pass", doorOrigin, visit.Challenge("nonce")); w.Code != http.StatusOK || len(*made) != 1 || (*made)[0].User != "olivia" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if event := <-recorder.Events; !strings.Contains(event, "Visited") || !strings.Contains(event, "olivia opened the desktop of alice") {
		t.Errorf("the event is %s", event)
	}
}

func TestThePageFramesDesktopsBehindDoors(t *testing.T) {
	s := open(t, session("alice", "a", placed), member(true))
	w := s.do(navigated(s.request("alice", http.MethodGet, "/s/desktops/a", nil)))
	body := w.Body.String()
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy, "; frame-src https://*.example.com") {
		t.Errorf("the policy is %s", policy)
	}
	for _, want := range []string{`data-origin="` + doorOrigin + `"`, `data-epoch="7"`, "data-mine", `<iframe id="frame"`, "viewer.js"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(body, `href="`+doorOrigin) {
		t.Error("it has a link that only leads back to it")
	}
	s = open(t, session("alice", "a", placed), member(false))
	w = s.do(navigated(s.request("alice", http.MethodGet, "/s/desktops/a", nil)))
	if body := w.Body.String(); strings.Contains(body, "iframe") || !strings.Contains(body, `href="`+doorOrigin+`/vnc.html"`) {
		t.Errorf("without a door the page is %s", body)
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy, "; frame-src 'none'") {
		t.Errorf("without a door the policy is %s", policy)
	}
}

func TestSources(t *testing.T) {
	for want, spec := range map[string]v1alpha1.MemberClusterSpec{
		"https://*.example.com":       {IngressDomain: "eu.desktops.example.com"},
		"https://*.example.co.uk":     {IngressDomain: "desktops.example.co.uk", IngressScheme: "https"},
		"http://*.vdi.localhost:8088": {IngressDomain: "eu-west.vdi.localhost", IngressScheme: "http", IngressPort: 8088},
		"https://*.internal":          {IngressDomain: "internal"},
	} {
		if got := sourceOf(&spec); got != want {
			t.Errorf("%s is %s, not %s", spec.IngressDomain, got, want)
		}
	}
}

// What the console finds is shown; a session of others reveals nothing.
func TestWhyABrowserDoesNotReachADesktop(t *testing.T) {
	there := func(s *v1alpha1.VDISession) {
		placed(s)
		s.Status.Endpoint.URL = "https://desktop.invalid/"
	}
	s := open(t, session("alice", "a", there), session("bob", "b", there), member(true))
	s.withPasses()
	s.denies["alice list desktops"] = true
	w := s.do(s.request("alice", http.MethodPost, "/s/desktops/a/reach", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "desktop.invalid does not exist") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := s.do(s.request("alice", http.MethodPost, "/s/desktops/b/reach", nil)); w.Code != http.StatusNotFound {
		t.Errorf("another user's: %d: %s", w.Code, w.Body)
	}
}
