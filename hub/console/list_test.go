package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// rows returns the names of the sessions that a page of the list shows, in their order.
func rows(body string) (names []string) {
	for _, part := range strings.Split(body, `<th scope="row"><a href="/s/`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		names = append(names, path[strings.LastIndex(path, "/")+1:])
	}
	return names
}

func TestTheListOfAllSessions(t *testing.T) {
	in := func(namespace string, change func(*v1alpha1.VDISession)) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Namespace = namespace
			change(s)
		}
	}
	s := open(t,
		session("alice", "a", running), session("bob", "b", suspended), session("carol", "c", in("labs", running)),
		session("dave", "d", func(s *v1alpha1.VDISession) { s.Spec.Template = "gpu" }),
	)
	s.denies["alice list desktops"], s.denies["alice list labs"], s.denies["olivia list labs"] = true, true, true
	if w := s.do(s.request("alice", http.MethodGet, "/sessions", nil)); w.Code != http.StatusNotFound {
		t.Errorf("without the right to list: %d", w.Code)
	}
	if w := s.do(s.request("alice", http.MethodGet, "/events?page=sessions%3F", nil)); w.Code != http.StatusNotFound {
		t.Errorf("its changes: %d", w.Code)
	}
	for query, want := range map[string]string{
		"":                     "d a b", // those that need attention first
		"?q=ALICE":             "a",
		"?q=gpu":               "d",
		"?state=suspended":     "b",
		"?q=bob&state=running": "",
		"?q=carol":             "", // in a namespace that olivia may not list
		"?page=2":              "",
		"?page=x":              "d a b",
	} {
		w := s.do(s.request("olivia", http.MethodGet, "/sessions"+query, nil))
		if got := strings.Join(rows(w.Body.String()), " "); w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q, not %q", query, w.Code, got, want)
		}
	}
	home := func(user string) string { return s.do(s.request(user, http.MethodGet, "/", nil)).Body.String() }
	if !strings.Contains(home("olivia"), `href="/sessions"`) || strings.Contains(home("alice"), `href="/sessions"`) {
		t.Error("a link to the list is not where it should be")
	}
}

func TestPagesOfTheList(t *testing.T) {
	var all []client.Object
	for i := range 2*listed + 1 {
		all = append(all, session("alice", fmt.Sprintf("s-%03d", i), func(s *v1alpha1.VDISession) {
			s.CreationTimestamp = metav1.NewTime(time.Unix(int64(1_000_000-i), 0))
		}))
	}
	s := open(t, all...)
	for page, want := range map[string]struct {
		first string
		rows  int
		links string
	}{
		"1": {"s-000", listed, "next"}, "2": {"s-100", listed, "prev next"}, "3": {"s-200", 1, "prev"},
	} {
		body := s.do(s.request("olivia", http.MethodGet, "/sessions?q=alice&page="+page, nil)).Body.String()
		got := rows(body)
		if len(got) != want.rows || got[0] != want.first {
			t.Errorf("page %s has %d sessions from %s", page, len(got), got[0])
		}
		for _, link := range []string{"prev", "next"} {
			if there := strings.Contains(body, `rel="`+link+`"`); there != strings.Contains(want.links, link) {
				t.Errorf("page %s has a link %s: %v", page, link, there)
			}
		}
		if !strings.Contains(body, "of 201 desktops") || !strings.Contains(body, "q=alice") {
			t.Errorf("page %s loses the search, or the number of sessions", page)
		}
	}
}
