package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
)

const (
	// listed is how many sessions a page of the list has.
	listed = 100
	// surveyedFor is for how long the survey of all sessions is used: it is shared by all pages of the list, whose
	// number does not add to its costs.
	surveyedFor = time.Second
)

// order is the order of states in the list: those that need attention come first.
var order = []messages.State{
	messages.Failed, messages.Interrupted, messages.Waiting, messages.Starting, messages.Ending, messages.Running, messages.Suspended, messages.Ended,
}

// surveyed is a session with what the list selects and orders by.
type surveyed struct {
	*v1alpha1.VDISession
	state messages.State
}

// survey is what the list knows of all sessions, by their order.
type survey struct {
	mu  sync.Mutex
	at  time.Time
	all []surveyed
}

// sessions returns all sessions as they were at most surveyedFor ago. They must not be changed.
func (s *survey) sessions(ctx context.Context, cache client.Reader) ([]surveyed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all != nil && time.Since(s.at) < surveyedFor {
		return s.all, nil
	}
	var sessions v1alpha1.VDISessionList
	if err := cache.List(ctx, &sessions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	all := make([]surveyed, 0, len(sessions.Items))
	for i := range sessions.Items {
		all = append(all, surveyed{&sessions.Items[i], messages.StateOf(&sessions.Items[i])})
	}
	slices.SortFunc(all, func(a, b surveyed) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.state), slices.Index(order, b.state)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.at, s.all = time.Now(), all
	return all, nil
}

// selection is what a user chose to see of the list.
type selection struct {
	// Text that the user, the name, the template or the region of a session contains.
	Text string
	// State of the sessions, empty for all.
	State messages.State
	// Page of the list, from 1.
	Page int
}

// selectionOf returns the selection of a query.
func selectionOf(query url.Values) selection {
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	return selection{Text: strings.TrimSpace(query.Get("q")), State: messages.State(query.Get("state")), Page: page}
}

// query returns the selection as the query of an address, for another page of the list.
func (s selection) query(page int) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": s.Text, "state": string(s.State)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	return q.Encode()
}

// matches reports whether a session contains the text.
func (s selection) matches(of *v1alpha1.VDISession) bool {
	if s.Text == "" {
		return true
	}
	region := ""
	if p := of.Status.Placement; p != nil {
		region = p.Region
	}
	for _, value := range []string{of.Spec.User, of.Name, of.Spec.Template, region} {
		if strings.Contains(strings.ToLower(value), strings.ToLower(s.Text)) {
			return true
		}
	}
	return false
}

// listPage is the list of all sessions.
type listPage struct {
	selection
	// Counts of the sessions that match the text, by state, in their order.
	Counts []count
	// Of is how many sessions match, and Desktops are those of the page.
	Of       int
	Desktops []desktop
	// Previous and Next are the queries of other pages, with -, if there are any.
	Previous, Next string
}

type count struct {
	State messages.State
	Of    int
	// Query selects the state, or all states if it is selected.
	Query    string
	Selected bool
}

// list handles GET /sessions.
func (c *console) list(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	s := selectionOf(r.URL.Query())
	content, err := c.listPage(r.Context(), s, user)
	if err != nil {
		return err
	}
	return c.page(w, http.StatusOK, "list", page{Title: "All desktops", User: user, Content: content, Live: "sessions?" + s.query(s.Page)})
}

// listable returns the namespaces whose sessions a user may list.
func (c *reader) listable(ctx context.Context, user login.Identity) (map[string]bool, error) {
	out := map[string]bool{}
	for _, namespace := range c.sessionNamespaces {
		may, err := c.authorizer.May(ctx, as(user), impersonation.Request{Verb: "list", Resource: "vdisessions", Namespace: namespace})
		if err != nil {
			return nil, err
		}
		if may {
			out[namespace] = true
		}
	}
	return out, nil
}

// listPage returns the list as a user may see it; errNotFound for one who may list no sessions.
func (c *reader) listPage(ctx context.Context, s selection, user login.Identity) (listPage, error) {
	namespaces, err := c.listable(ctx, user)
	switch {
	case err != nil:
		return listPage{}, err
	case len(namespaces) == 0:
		return listPage{}, errNotFound
	}
	all, err := c.survey.sessions(ctx, c.cache)
	if err != nil {
		return listPage{}, err
	}
	out := listPage{selection: s}
	shown, counts := out.choose(all, namespaces)
	out.Counts = s.counts(counts)
	if s.Page > 1 {
		out.Previous = s.query(s.Page - 1)
	}
	if out.Of > s.Page*listed {
		out.Next = s.query(s.Page + 1)
	}
	for _, of := range shown {
		d, err := c.desktop(ctx, of, user)
		if err != nil {
			return listPage{}, err
		}
		out.Desktops = append(out.Desktops, d)
	}
	return out, nil
}

// choose returns the sessions of the page, and counts all that match.
func (l *listPage) choose(all []surveyed, namespaces map[string]bool) (shown []*v1alpha1.VDISession, counts map[messages.State]int) {
	counts = map[messages.State]int{}
	for i := range all {
		if !namespaces[all[i].Namespace] || !l.matches(all[i].VDISession) {
			continue
		}
		counts[all[i].state]++
		if l.State != "" && l.State != all[i].state {
			continue
		}
		if l.Of++; l.Of > (l.Page-1)*listed && l.Of <= l.Page*listed {
			shown = append(shown, all[i].VDISession)
		}
	}
	return shown, counts
}

// counts returns the states that sessions have, with the selections of them.
func (s selection) counts(of map[messages.State]int) []count {
	var out []count
	for _, state := range order {
		if n := of[state]; n > 0 || state == s.State {
			other := selection{Text: s.Text, State: state}
			if state == s.State {
				other.State = ""
			}
			out = append(out, count{state, n, other.query(1), state == s.State})
		}
	}
	return out
}
