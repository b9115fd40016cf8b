package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

func TestNobodySeesAPageWithoutALogin(t *testing.T) {
	s := open(t, session("alice", "a", running))
	for _, path := range []string{"/", "/s/desktops/a", "/new/browser", "/d/browser", "/nothing"} {
		w := s.do(s.request("", http.MethodGet, path, nil))
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/login?to="+url.QueryEscape(path) {
			t.Errorf("GET %s: %d to %s", path, w.Code, to)
		}
	}
	for method, path := range map[string]string{http.MethodGet: "/events?page=home", http.MethodPost: "/s/desktops/a/end"} {
		if w := s.do(s.request("", method, path, nil)); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s: %d", method, path, w.Code)
		}
	}
}

func TestLoginByPassword(t *testing.T) {
	s := open(t)
	w := s.do(s.request("", http.MethodPost, "/login", url.Values{"name": {"alice"}, "password": {"wonderland"}, "to": {"/s/desktops/a"}}))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/s/desktops/a" || !strings.HasPrefix(w.Header().Get("Set-Cookie"), login.Cookie+"=") {
		t.Errorf("%d to %s with %s", w.Code, w.Header().Get("Location"), w.Header().Get("Set-Cookie"))
	}
	w = s.do(s.request("", http.MethodPost, "/login", url.Values{"name": {"alice"}, "password": {"guess"}, "to": {"/"}}))
	if w.Code != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" || !strings.Contains(w.Body.String(), "User or password is wrong.") || strings.Contains(w.Body.String(), "guess") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestALoginLeadsToNoOtherSite(t *testing.T) {
	for _, to := range []string{"https://evil.example.com/", "//evil.example.com/", `/\evil.example.com`, "/s//evil.example.com", "/s/\r\nX: y", "/login", "javascript:alert(1)"} {
		s := open(t) // attempts of a name are limited
		w := s.do(s.request("", http.MethodPost, "/login", url.Values{"name": {"alice"}, "password": {"wonderland"}, "to": {to}}))
		if got := w.Header().Get("Location"); got != "/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// A desktop's host may be of the console's site, and another site's page may send a form here.
func TestOnlyPagesOfTheConsoleChangeAnything(t *testing.T) {
	s := open(t, session("alice", "a", running)).passed()
	for _, from := range []string{"same-site", "cross-site"} {
		r := s.request("alice", http.MethodPost, "/s/desktops/a/end", url.Values{"uid": {"uid-a"}})
		r.Header.Set("Sec-Fetch-Site", from)
		if w := s.do(r); w.Code != http.StatusForbidden || len(s.writes) > 0 {
			t.Errorf("%s: %d, %v", from, w.Code, s.writes)
		}
	}
	r := s.request("alice", http.MethodGet, "/s/desktops/a/end?uid=uid-a", nil)
	if w := s.do(r); w.Code < 400 || len(s.writes) > 0 {
		t.Errorf("GET: %d, %v", w.Code, s.writes)
	}
	r = s.request("alice", http.MethodPost, "/s/desktops/a/end", url.Values{"uid": {"uid-a"}})
	r.Host = "other.example.com"
	if w := s.do(r); w.Code != http.StatusMisdirectedRequest || len(s.writes) > 0 {
		t.Errorf("another host: %d, %v", w.Code, s.writes)
	}
}

func TestHeadersOfPages(t *testing.T) {
	s := open(t)
	h := s.do(s.request("", http.MethodGet, "/login", nil)).Header()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Strict-Transport-Security": "max-age", "Cache-Control": "no-store",
	} {
		if !strings.Contains(h.Get(name), want) {
			t.Errorf("%s is %q", name, h.Get(name))
		}
	}
}

// What users and administrators write is text.
func TestHostileNames(t *testing.T) {
	hostile := `<script>alert(1)</script>"'><img src=x>`
	s := open(t,
		newTemplate("browser", func(t *v1alpha1.VDITemplate) {
			t.Spec.Title, t.Annotations = hostile, map[string]string{v1alpha1.AnnotationDescription: hostile}
		}),
		session("alice", "a", func(s *v1alpha1.VDISession) {
			running(s)
			s.Status.Endpoint.URL = "javascript:alert(1)"
			for i := range s.Status.Conditions {
				if s.Status.Conditions[i].Type == "Ready" {
					s.Status.Conditions[i].Reason, s.Status.Conditions[i].Message = v1alpha1.ReasonExpiringSoon, hostile
				}
			}
		}))
	for _, path := range []string{"/", "/s/desktops/a", "/new/browser", "/login?to=" + url.QueryEscape("/s/"+hostile)} {
		w := s.do(s.request("alice", http.MethodGet, path, nil))
		body := w.Body.String()
		if w.Code != http.StatusOK || strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") || strings.Contains(body, `href="javascript:`) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestAssets(t *testing.T) {
	s := open(t)
	for _, name := range []string{"style.css", "console.js"} {
		w := s.do(s.request("", http.MethodGet, asset(name), nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() > 40<<10 {
			t.Errorf("%s: %d, %s, %d bytes", name, w.Code, w.Header().Get("Cache-Control"), w.Body.Len())
		}
	}
	if w := s.do(s.request("", http.MethodGet, "/static/../layout.html", nil)); w.Code == http.StatusOK {
		t.Error("a template is served")
	}
}
