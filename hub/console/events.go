package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/console/live"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// events handles GET /events: the fragments of an open page, and their changes. The login may end meanwhile;
// the stream ends with it.
func (c *console) events(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	about, render, err := c.fragments(r.URL.Query().Get("page"), user)
	if err != nil {
		return err
	}
	// What the page is about is checked before the stream begins: an error is a response then.
	if _, err := render(r.Context()); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(r.Context(), user.End())
	defer cancel()
	// A replica that ends ends its streams at once: the browser connects to another one.
	defer context.AfterFunc(c.draining, cancel)()
	open := c.topics.Open(about...)
	defer open.Close()
	eventClients.Inc()
	defer eventClients.Dec()
	err = live.Stream(ctx, w, open, live.DefaultTiming, render)
	if errors.Is(err, errNotFound) {
		// The session is gone, or not for this user any more. The browser reloads, and its user reads that.
		_, err = w.Write([]byte("event: gone\ndata:\n\n"))
	}
	log.FromContext(ctx).V(1).Info("A page is closed", "page", r.URL.Query().Get("page"), "cause", fmt.Sprint(err))
	return nil // the response has begun
}

// renderer renders the fragments of a page.
type renderer func(context.Context) ([]live.Fragment, error)

// fragments returns what a page is about, and how its fragments are rendered.
func (c *console) fragments(name string, user login.Identity) (about []string, render renderer, err error) {
	if name == "home" {
		return []string{aboutUser(user.Name), aboutTemplates, aboutSystem}, func(ctx context.Context) ([]live.Fragment, error) {
			content, err := c.homePage(ctx, user)
			if err != nil {
				return nil, err
			}
			return c.rendered(content, "desktops", "offers")
		}, nil
	}
	if query, ok := strings.CutPrefix(name, "sessions?"); ok {
		values, err := url.ParseQuery(query)
		if err != nil {
			return nil, nil, errNotFound
		}
		return []string{aboutSessions, aboutTemplates, aboutSystem}, func(ctx context.Context) ([]live.Fragment, error) {
			content, err := c.listPage(ctx, selectionOf(values), user)
			if err != nil {
				return nil, err
			}
			return c.rendered(content, "sessions")
		}, nil
	}
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "s" {
		return nil, nil, errNotFound
	}
	key := types.NamespacedName{Namespace: parts[1], Name: parts[2]}
	return []string{aboutSession(key), aboutTemplates, aboutSystem}, func(ctx context.Context) ([]live.Fragment, error) {
		content, err := c.visible(ctx, key, user)
		if err != nil {
			return nil, err
		}
		return c.rendered(content, "session")
	}, nil
}

// rendered renders fragments, whose templates have the names of their elements, and that of an outage.
func (c pages) rendered(content any, names ...string) ([]live.Fragment, error) {
	out := make([]live.Fragment, 0, len(names)+1)
	for _, name := range append(names, "away") {
		var b bytes.Buffer
		of := content
		if name == "away" {
			of = c.away()
		}
		if err := c.templates.ExecuteTemplate(&b, name, of); err != nil {
			return nil, err
		}
		out = append(out, live.Fragment{ID: name, HTML: b.Bytes()})
	}
	return out, nil
}
