package console

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/tickets"
)

// ticketPage is the page that kubectl vdi console opens. The secret of the ticket is in the fragment of its
// address, which browsers send nowhere; the page's script puts it into the form.
type ticketPage struct {
	Namespace, Name string
	// Submits is true if the form is submitted at once: no page of another site has led here.
	Submits bool
	Error   string
}

// ticketForm handles GET /t/{namespace}/{name}.
func (c *logins) ticketForm(w http.ResponseWriter, r *http.Request) {
	c.showTicket(w, r, http.StatusOK, ticketPage{Submits: r.Header.Get("Sec-Fetch-Site") == "none"})
}

func (c *logins) showTicket(w http.ResponseWriter, r *http.Request, code int, content ticketPage) {
	key := sessionKey(r)
	content.Namespace, content.Name = key.Namespace, key.Name
	w.Header().Set("Cache-Control", "no-store")
	if err := c.page(w, code, "ticket", page{Title: "Log in by kubectl", Content: content}); err != nil {
		log.FromContext(r.Context()).Error(err, "Rendering the page of a ticket")
	}
}

// loginByTicket handles POST /t/{namespace}/{name}/login.
func (c *logins) loginByTicket(w http.ResponseWriter, r *http.Request) {
	var user login.Identity
	err := login.ErrTooManyAttempts
	if c.addresses.allow(clientAddress(r, c.trusted), c.now()) {
		user, err = c.redeem(r, sessionKey(r), r.FormValue("secret"))
	}
	if err == nil {
		err = c.logIn(w, user)
	}
	c.loggedInBy(r, "kubectl", user.Name, err)
	switch {
	case err == nil:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case errors.Is(err, tickets.ErrInvalid), errors.Is(err, login.ErrTooManyAttempts):
		c.showTicket(w, r, http.StatusUnauthorized, ticketPage{Error: sentence(err)})
	default:
		log.FromContext(r.Context()).Error(err, "A ticket was not redeemed")
		c.showTicket(w, r, http.StatusServiceUnavailable, ticketPage{Error: "The login by kubectl does not work at the moment. Ask your administrator."})
	}
}

// redeem returns the identity that a ticket states.
func (c *logins) redeem(r *http.Request, key types.NamespacedName, secret string) (login.Identity, error) {
	spec, err := c.redeemer.Redeem(r.Context(), key, secret, v1alpha1.AccessConsole)
	if err != nil {
		return login.Identity{}, err
	}
	return login.New(spec.User, tickets.Groups(spec), c.now(), c.lifetime)
}
