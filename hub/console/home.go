package console

import (
	"context"
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// homePage is a user's desktops, and those that the user may start.
type homePage struct {
	Desktops []desktop
	Offers   []offer
	// Lists is true if the user may list the sessions of others.
	Lists bool
	// Unknown is true if the API server can't be asked what the user may start. The desktops are shown nevertheless.
	Unknown bool
}

// home handles GET /.
func (c *console) home(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	content, err := c.homePage(r.Context(), user)
	if err != nil {
		return err
	}
	return c.page(w, http.StatusOK, "home", page{Title: "My desktops", User: user, Content: content, Live: "home"})
}

func (c *reader) homePage(ctx context.Context, user login.Identity) (homePage, error) {
	desktops, err := c.own(ctx, user)
	if err != nil {
		return homePage{}, err
	}
	offers, err := c.offers(ctx, user)
	if err != nil {
		log.FromContext(ctx).V(1).Info("What a user may start is not known", "user", user.Name, "cause", err.Error())
	}
	lists, unknown := c.listable(ctx, user)
	return homePage{Desktops: desktops, Offers: offers, Lists: len(lists) > 0, Unknown: errors.Join(err, unknown) != nil}, nil
}
