package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
)

// All returns the scenarios in the order in which they run.
func All() []runner.Scenario {
	all := []runner.Scenario{
		{Name: "console-replicas-killed", Size: 6, Short: true, Do: replicasKilled},
		{Name: "console-keys-lost", Size: 6, Short: true, Do: keysLost},
		{Name: "console-ticket-raced", Size: 6, Short: true, Do: ticketRaced},
		{Name: "console-hub-api-down", Size: 6, Slack: stage.WatchBackoff, EndsProcesses: true, Do: hubAPIDown},
	}
	for i := range all {
		all[i].Kind.Consoles = true
	}
	return append(all, doors()...)
}

// What the page of a session shows in a state, and at what it asks for a login.
const (
	running   = `class="card running"`
	suspended = `class="card suspended"`
	loginPath = "/login"
)

// reconnectAfter is how soon a browser opens a stream again that was cut.
const reconnectAfter = time.Second

// visitor is a user with a session, and its page.
type visitor struct {
	*pages.Browser
	path string
	form url.Values
}

// visit logs a user in, who starts a session and waits until it runs.
func visit(ctx context.Context, r *runner.Run, user string) (*visitor, error) {
	b, err := pages.New(r.Fleet.Console.URL)
	if err != nil {
		return nil, err
	}
	r.Cleanup(b.Close)
	if err := b.Login(ctx, user); err != nil {
		return nil, err
	}
	form := url.Values{"name": {r.Scenario.Name + "-" + user}, "namespace": {workload.Namespace}}
	started, err := b.Post(ctx, "/new/"+workload.PlainTemplate, form)
	if err != nil || started.Status != http.StatusSeeOther {
		return nil, fmt.Errorf("%s can't start a session: %d %s: %w", user, started.Status, started.Body, err)
	}
	v := &visitor{Browser: b, path: started.Location}
	if err := v.shows(ctx, r, running); err != nil {
		return nil, err
	}
	page, err := b.Get(ctx, v.path)
	if err != nil {
		return nil, err
	}
	uid, err := page.Value("uid")
	v.form = url.Values{"uid": {uid}}
	return v, err
}

// shows waits until the page of the session shows a text.
func (v *visitor) shows(ctx context.Context, r *runner.Run, text string) error {
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		p, err := v.Get(ctx, v.path)
		if err == nil && !strings.Contains(p.Body, text) {
			err = fmt.Errorf("%s does not show %s: %d %s", v.path, text, p.Status, p.Body)
		}
		return err
	})
}

// follow keeps the page of the session open, as browsers do, until it is changed to show a text.
func (v *visitor) follow(ctx context.Context, text string) error {
	for {
		err := v.Events(ctx, strings.TrimPrefix(v.path, "/"), text)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := stage.Sleep(ctx, reconnectAfter); err != nil {
			return err
		}
	}
}

// act submits an action until it is done: the replica that answers may be killed meanwhile.
func (v *visitor) act(ctx context.Context, action string) error {
	return stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error {
		p, err := v.Post(ctx, v.path+"/"+action, v.form)
		switch {
		case err != nil:
			return err
		case p.Status != http.StatusSeeOther || strings.HasPrefix(p.Location, loginPath):
			return fmt.Errorf("%s is not done: %d %s %s", action, p.Status, p.Location, p.Body)
		}
		return nil
	})
}
