package door

import (
	"net/http"
	"testing"
)

// All desktops of a member are of one site: browsers send a desktop's cookies with what another desktop's page requests.
func TestPagesOfOtherHosts(t *testing.T) {
	m := start(t, ok)
	for _, tc := range []struct {
		method, site, mode, dest string
		want                     int
	}{
		{http.MethodGet, "same-site", "no-cors", "image", http.StatusForbidden},
		{http.MethodPost, "same-site", "no-cors", "empty", http.StatusForbidden},
		{http.MethodGet, "same-site", "navigate", "iframe", http.StatusForbidden},
		{http.MethodPost, "same-site", "navigate", "document", http.StatusForbidden},
		{http.MethodGet, "cross-site", "cors", "empty", http.StatusForbidden},
		{http.MethodGet, "same-site", "navigate", "document", http.StatusSeeOther}, // to the console's page, which leads back
		{http.MethodGet, "same-origin", "navigate", "iframe", http.StatusOK},
		{http.MethodPost, "same-origin", "cors", "empty", http.StatusOK},
		{http.MethodGet, "none", "navigate", "document", http.StatusOK},
	} {
		m.seen = nil
		r := m.request(tc.method, "/api/remove_user?name=alice", m.pass(nil))
		r.Header.Set("Sec-Fetch-Site", tc.site)
		r.Header.Set("Sec-Fetch-Mode", tc.mode)
		r.Header.Set("Sec-Fetch-Dest", tc.dest)
		w := m.do(r)
		if w.Code != tc.want || (m.seen != nil) != (tc.want == http.StatusOK) {
			t.Errorf("%+v: %d, and the desktop saw %v", tc, w.Code, m.seen)
		}
		if w.Code == http.StatusSeeOther && w.Header().Get("Location") != origin+"/s/desktops/alice-browser" {
			t.Errorf("%+v leads to %s", tc, w.Header().Get("Location"))
		}
	}
}
