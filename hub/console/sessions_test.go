package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestAUserSeesOnlyTheOwnSessions(t *testing.T) {
	s := open(t, session("alice", "hers", running), session("bob", "his", running), newTemplate("browser", nil))
	s.denies["alice list desktops"] = true
	w := s.do(s.request("alice", http.MethodGet, "/", nil))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "hers") || strings.Contains(body, "his<") || strings.Contains(body, "/his") {
		t.Errorf("%d: %s", w.Code, body)
	}
	his := s.do(s.request("alice", http.MethodGet, "/s/desktops/his", nil))
	none := s.do(s.request("alice", http.MethodGet, "/s/desktops/none", nil))
	if his.Code != http.StatusNotFound || his.Body.String() != none.Body.String() {
		t.Errorf("a session of somebody else (%d) can be told from one that does not exist (%d)", his.Code, none.Code)
	}
	for _, path := range []string{"/s/desktops/his/end", "/s/desktops/his/suspend"} {
		if w := s.do(s.request("alice", http.MethodPost, path, url.Values{"uid": {"uid-his"}})); w.Code != http.StatusNotFound || len(s.writes) > 0 {
			t.Errorf("%s: %d, %v", path, w.Code, s.writes)
		}
	}
	if w := s.do(s.request("alice", http.MethodGet, "/events?page=s/desktops/his", nil)); w.Code != http.StatusNotFound {
		t.Errorf("events: %d", w.Code)
	}
}

func TestActions(t *testing.T) {
	browser := newTemplate("browser", func(t *v1alpha1.VDITemplate) { t.Spec.Timeout = v1alpha1.TimeLimit{Default: "1h", Max: "8h"} })
	soon := func(s *v1alpha1.VDISession) {
		running(s)
		end := metav1.NewTime(time.Now().Add(time.Hour))
		s.Status.ExpirationTime = &end
	}
	failed := func(s *v1alpha1.VDISession) {
		running(s)
		s.Status.Attempt = 3
		for i := range s.Status.Conditions {
			if s.Status.Conditions[i].Type == "Ready" {
				s.Status.Conditions[i].Status, s.Status.Conditions[i].Reason = metav1.ConditionFalse, v1alpha1.ReasonCrashLoop
			}
		}
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "Progressing", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCrashLoop})
	}
	for name, tc := range map[string]struct {
		session func(*v1alpha1.VDISession)
		action  string
		verb    string
		spec    string
		to      string
	}{
		"suspend": {running, "suspend", "patch", `{"operatingMode":"Suspended"}`, "/"},
		"wake":    {suspended, "wake", "patch", `{"operatingMode":"Running"}`, "/s/desktops/a"},
		"extend":  {soon, "extend", "patch", `{"timeout":"2h0m0s"}`, "/s/desktops/a"},
		"retry":   {failed, "retry", "patch", `{"attempt":4}`, "/s/desktops/a"},
		"end":     {running, "end", "delete", "", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, session("alice", "a", tc.session), browser).passed()
			form := url.Values{"uid": {"uid-a"}}
			w := s.do(s.request("alice", http.MethodPost, "/s/desktops/a/"+tc.action, form))
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != tc.to {
				t.Fatalf("%d to %s: %s", w.Code, w.Header().Get("Location"), w.Body)
			}
			if len(s.writes) != 1 || s.writes[0].user != "alice" || s.writes[0].verb != tc.verb || s.writes[0].object != "desktops/a" {
				t.Fatalf("it wrote %v", s.writes)
			}
			var patch struct {
				Metadata struct{ UID string }
				Spec     json.RawMessage
			}
			if tc.spec != "" {
				if err := json.Unmarshal([]byte(s.writes[0].body), &patch); err != nil || patch.Metadata.UID != "uid-a" || string(patch.Spec) != tc.spec {
					t.Errorf("the patch is %s", s.writes[0].body)
				}
			}
		})
	}
}

// A form of another time: the session was recreated, or is in another state.
func TestAnActionOnWhatIsNotShownAnyMore(t *testing.T) {
	s := open(t, session("alice", "a", running), session("alice", "b", suspended)).passed()
	for path, uid := range map[string]string{"/s/desktops/a/suspend": "uid-of-an-earlier-one", "/s/desktops/a/retry": "uid-a", "/s/desktops/b/extend": "uid-b"} {
		if w := s.do(s.request("alice", http.MethodPost, path, url.Values{"uid": {uid}})); w.Code != http.StatusConflict || len(s.writes) > 0 {
			t.Errorf("%s: %d, %v", path, w.Code, s.writes)
		}
	}
	// Submitted twice, it is done.
	for path, uid := range map[string]string{"/s/desktops/b/suspend": "uid-b", "/s/desktops/a/wake": "uid-a"} {
		if w := s.do(s.request("alice", http.MethodPost, path, url.Values{"uid": {uid}})); w.Code != http.StatusSeeOther || len(s.writes) > 0 {
			t.Errorf("%s: %d, %v", path, w.Code, s.writes)
		}
	}
}

func TestNothingIsWrittenUntilImpersonationIsChecked(t *testing.T) {
	s := open(t, session("alice", "a", running), newTemplate("browser", nil))
	for path, form := range map[string]url.Values{
		"/s/desktops/a/end": {"uid": {"uid-a"}},
		"/new/browser":      {"namespace": {"desktops"}, "name": {"browser-abcde"}},
	} {
		if w := s.do(s.request("alice", http.MethodPost, path, form)); w.Code != http.StatusServiceUnavailable || len(s.writes) > 0 {
			t.Errorf("%s: %d, %v", path, w.Code, s.writes)
		}
	}
}

func TestStartADesktop(t *testing.T) {
	secured := newTemplate("secured", func(t *v1alpha1.VDITemplate) { t.Spec.AllowedGroups = []string{"staff", "other"} })
	s := open(t, newTemplate("browser", nil), secured).passed()
	s.denies["alice create labs"] = true
	form := s.do(s.request("alice", http.MethodGet, "/new/secured", nil)).Body.String()
	_, rest, _ := strings.Cut(form, `name="name" value="`)
	name, _, _ := strings.Cut(rest, `"`)
	if !strings.HasPrefix(name, "secured-") || strings.Contains(form, "<select") {
		t.Fatalf("the form is %s", form)
	}
	for range 2 {
		w := s.do(s.request("alice", http.MethodPost, "/new/secured", url.Values{"namespace": {"desktops"}, "name": {name}}))
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/s/desktops/"+name {
			t.Fatalf("%d to %s: %s", w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	var created v1alpha1.VDISession
	if err := s.console.live.Get(context.Background(), types.NamespacedName{Namespace: "desktops", Name: name}, &created); err != nil {
		t.Fatal(err)
	}
	if created.Spec.User != "alice" || created.Spec.Template != "secured" || len(created.Spec.Groups) != 1 || created.Spec.Groups[0] != "staff" {
		t.Errorf("the session is %+v", created.Spec)
	}
	if w := s.do(s.request("alice", http.MethodPost, "/new/secured", url.Values{"namespace": {"labs"}, "name": {"secured-fghij"}})); w.Code != http.StatusConflict {
		t.Errorf("in a namespace without the right: %d", w.Code)
	}
}

func TestOffers(t *testing.T) {
	change := func(f func(*v1alpha1.VDITemplate)) func(*v1alpha1.VDITemplate) { return f }
	s := open(t,
		newTemplate("a-browser", nil),
		newTemplate("b-hidden", change(func(t *v1alpha1.VDITemplate) { t.Spec.State = v1alpha1.TemplateHidden })),
		newTemplate("c-disabled", change(func(t *v1alpha1.VDITemplate) { t.Spec.State = v1alpha1.TemplateDisabled })),
		newTemplate("d-others", change(func(t *v1alpha1.VDITemplate) { t.Spec.AllowedUsers = []string{"bob"} })),
		newTemplate("e-group", change(func(t *v1alpha1.VDITemplate) { t.Spec.AllowedGroups = []string{"staff"} })),
		newTemplate("f-elsewhere", change(func(t *v1alpha1.VDITemplate) { t.Spec.AllowedNamespaces = []string{"kiosks"} })),
		newTemplate("g-unavailable", change(func(t *v1alpha1.VDITemplate) { t.Status.AvailableClusters = 0 })),
	)
	body := s.do(s.request("alice", http.MethodGet, "/", nil)).Body.String()
	for name, want := range map[string]bool{"a-browser": true, "b-hidden": false, "c-disabled": false, "d-others": false, "e-group": true, "f-elsewhere": false, "g-unavailable": true} {
		if got := strings.Contains(body, "/new/"+name); got != want {
			t.Errorf("%s is offered: %v", name, got)
		}
	}
	if !strings.Contains(body, "no region can run it now") {
		t.Error("nothing shows that g-unavailable is unavailable")
	}
	if w := s.do(s.request("alice", http.MethodGet, "/new/b-hidden", nil)); w.Code != http.StatusOK {
		t.Errorf("a hidden template by its address: %d", w.Code)
	}
	if w := s.do(s.request("alice", http.MethodGet, "/new/d-others", nil)); w.Code != http.StatusNotFound {
		t.Errorf("a template of others: %d", w.Code)
	}
}

// Only a person who opens the page of a suspended session wakes it.
func TestWakeOnNavigation(t *testing.T) {
	s := open(t, session("alice", "a", suspended), session("alice", "b", running))
	wakes := func(r *http.Request) bool {
		w := s.do(r)
		if w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return strings.Contains(w.Body.String(), "data-submit")
	}
	if !wakes(navigated(s.request("alice", http.MethodGet, "/s/desktops/a", nil))) {
		t.Error("a navigation does not wake the session")
	}
	prefetch := navigated(s.request("alice", http.MethodGet, "/s/desktops/a", nil))
	prefetch.Header.Set("Sec-Purpose", "prefetch")
	frame := navigated(s.request("alice", http.MethodGet, "/s/desktops/a", nil))
	frame.Header.Set("Sec-Fetch-Dest", "iframe")
	for name, r := range map[string]*http.Request{
		"a browser that loads ahead": prefetch, "a frame": frame, "a script": s.request("alice", http.MethodGet, "/s/desktops/a", nil),
		"somebody else":          navigated(s.request("olivia", http.MethodGet, "/s/desktops/a", nil)),
		"of one that is running": navigated(s.request("alice", http.MethodGet, "/s/desktops/b", nil)),
	} {
		if wakes(r) {
			t.Errorf("%s wakes the session", name)
		}
	}
	if len(s.writes) > 0 {
		t.Errorf("GET wrote %v", s.writes)
	}
}

func TestMyDesktopOfAKind(t *testing.T) {
	browser := newTemplate("browser", nil)
	old := func(age time.Duration, change func(*v1alpha1.VDISession)) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
			if change != nil {
				change(s)
			}
		}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		to      string
	}{
		"none":                      {nil, "/new/browser"},
		"only somebody else's":      {[]client.Object{session("bob", "his", running)}, "/new/browser"},
		"the one that runs":         {[]client.Object{session("alice", "new", old(time.Minute, suspended)), session("alice", "runs", old(time.Hour, running))}, "/s/desktops/runs"},
		"a suspended one":           {[]client.Object{session("alice", "s", old(time.Hour, suspended))}, "/s/desktops/s"},
		"the newest of those alike": {[]client.Object{session("alice", "a", old(time.Hour, suspended)), session("alice", "b", old(time.Minute, suspended))}, "/s/desktops/b"},
	} {
		s := open(t, append(tc.objects, browser)...)
		if w := s.do(s.request("alice", http.MethodGet, "/d/browser", nil)); w.Code != http.StatusSeeOther || w.Header().Get("Location") != tc.to {
			t.Errorf("%s: %d to %s", name, w.Code, w.Header().Get("Location"))
		}
	}
	s := open(t)
	if w := s.do(s.request("alice", http.MethodGet, "/d/none", nil)); w.Code != http.StatusNotFound {
		t.Errorf("a template that does not exist: %d", w.Code)
	}
}

// What the API server's admission says is shown as it is; what else fails is not.
func TestErrorsOfTheAPIServer(t *testing.T) {
	s := open(t, session("alice", "a", running)).passed()
	for name, tc := range map[string]struct {
		err  error
		code int
		text string
	}{
		"denied":      {forbidden("a quota of desktops is used up: end one"), http.StatusForbidden, "a quota of desktops is used up: end one"},
		"unreachable": {context.DeadlineExceeded, http.StatusServiceUnavailable, "This was not done"},
	} {
		s.refusal = tc.err
		w := s.do(s.request("alice", http.MethodPost, "/s/desktops/a/suspend", url.Values{"uid": {"uid-a"}}))
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.text) || strings.Contains(w.Body.String(), "deadline") {
			t.Errorf("%s: %d: %s", name, w.Code, w.Body)
		}
	}
}
