package console

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
)

// viewerPage is the page of a session, at an address that never changes.
type viewerPage struct {
	Desktop desktop
	// Wakes is true if the page wakes the session: its user came here for it.
	Wakes bool
	// Frames is true if a desktop can be shown on the page: a member has a door.
	Frames bool
}

// viewer handles GET /s/{namespace}/{name}.
func (c *console) viewer(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	d, err := c.visible(r.Context(), sessionKey(r), user)
	if err != nil {
		return err
	}
	sources, err := c.frameSources(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Security-Policy", contentSecurityPolicy+"; frame-src "+sources)
	content := viewerPage{Desktop: d, Wakes: d.Mine && d.State == messages.Suspended && isNavigation(r), Frames: sources != noSources}
	return c.page(w, http.StatusOK, "viewer", page{Title: d.Title, User: user, Content: content, Live: "s/" + d.Namespace + "/" + d.Name})
}

// visible returns a session as its page shows it to a user who may see it.
func (c *reader) visible(ctx context.Context, key types.NamespacedName, user login.Identity) (desktop, error) {
	s, err := c.session(ctx, key, user)
	if err != nil {
		return desktop{}, err
	}
	d, err := c.desktop(ctx, s, user)
	if err != nil {
		return desktop{}, err
	}
	if err := c.behindDoor(ctx, s, user, &d); err != nil {
		return desktop{}, err
	}
	d.Actions = slices.DeleteFunc(d.Actions, func(a messages.Action) bool { return a == messages.Open }) // it is open
	return d, nil
}

// behindDoor sets what the page needs to show a desktop behind a door to a user who may open it.
func (c *reader) behindDoor(ctx context.Context, s *v1alpha1.VDISession, user login.Identity, d *desktop) error {
	if d.State != messages.Running {
		return nil
	}
	door, err := c.doorOf(ctx, s)
	if err != nil || door == "" {
		return err
	}
	d.URL = "" // without a pass it would only lead back here
	may, err := c.mayOpen(ctx, s, user)
	if may {
		d.Origin, d.Epoch = door, s.Status.Placement.Epoch
	}
	return err
}

// isNavigation reports whether a person opened a page: no script, no frame, and no browser that loads ahead.
func isNavigation(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Dest") == "document" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Purpose") == ""
}

// preference is the order in which a user's sessions of a template are chosen.
var preference = []messages.State{
	messages.Running, messages.Starting, messages.Interrupted, messages.Waiting, messages.Suspended, messages.Ended, messages.Failed,
}

// best returns the session of a template that its user most likely wants, of sessions by age: one that runs,
// or will, else a suspended one, else the newest. One that is being deleted is none.
func best(sessions []desktop, template string) (desktop, bool) {
	rank := func(d desktop) int { return slices.Index(preference, d.State) }
	var found *desktop
	for i := range sessions {
		d := &sessions[i]
		if d.Template == template && rank(*d) >= 0 && (found == nil || rank(*d) < rank(*found)) {
			found = d
		}
	}
	if found == nil {
		return desktop{}, false
	}
	return *found, true
}
