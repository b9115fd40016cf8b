package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/tickets"
)

// logins logs users in, and out.
type logins struct {
	pages
	auditor
	cookies login.Cookies
	// provider and usersFile are nil without that way to log in.
	provider  *login.Provider
	usersFile *login.UsersFile
	redeemer  *tickets.Redeemer
	addresses addressLimits
	lifetime  time.Duration
	now       func() time.Time
}

// loginPage is the page on which a user logs in.
type loginPage struct {
	// To is the path to go on with.
	To string
	// OIDC and Password are the ways to log in.
	OIDC, Password bool
	// Name that was tried, and Error of that.
	Name, Error string
}

// loginForm handles GET /login.
func (c *logins) loginForm(w http.ResponseWriter, r *http.Request) {
	c.showLogin(w, r, http.StatusOK, loginPage{To: local(r.URL.Query().Get("to"))})
}

func (c *logins) showLogin(w http.ResponseWriter, r *http.Request, code int, content loginPage) {
	w.Header().Set("Cache-Control", "no-store")
	content.OIDC, content.Password = c.provider != nil, c.usersFile != nil
	if err := c.page(w, code, "login", page{Title: "Log in", Content: content}); err != nil {
		log.FromContext(r.Context()).Error(err, "Rendering the page of the login")
	}
}

// loginByPassword handles POST /login.
func (c *logins) loginByPassword(w http.ResponseWriter, r *http.Request) {
	if c.usersFile == nil {
		http.NotFound(w, r)
		return
	}
	name, to := r.FormValue("name"), local(r.FormValue("to"))
	var user login.Identity
	err := login.ErrTooManyAttempts
	if c.addresses.allow(clientAddress(r, c.trusted), c.now()) {
		user, err = c.usersFile.Login(name, r.FormValue("password"), c.now(), c.lifetime)
	}
	if err == nil {
		err = c.logIn(w, user)
	}
	c.loggedInBy(r, "password", name, err)
	switch {
	case err == nil:
		http.Redirect(w, r, to, http.StatusSeeOther)
	case errors.Is(err, login.ErrTooManyAttempts):
		c.showLogin(w, r, http.StatusTooManyRequests, loginPage{To: to, Name: name, Error: sentence(err)})
	default:
		c.showLogin(w, r, http.StatusUnauthorized, loginPage{To: to, Name: name, Error: c.shown(err)})
	}
}

// loginByOIDC handles GET /login/oidc: it leads to the identity provider.
func (c *logins) loginByOIDC(w http.ResponseWriter, r *http.Request) {
	if c.provider == nil {
		http.NotFound(w, r)
		return
	}
	to := local(r.URL.Query().Get("to"))
	address, cookie, err := c.provider.Begin(to)
	if err != nil {
		c.loggedInBy(r, "oidc", "", err)
		c.showLogin(w, r, http.StatusServiceUnavailable, loginPage{To: to, Error: sentence(err)})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.SetCookie(w, cookie)
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// loginCallback handles GET /login/callback: the way back from the identity provider.
func (c *logins) loginCallback(w http.ResponseWriter, r *http.Request) {
	if c.provider == nil {
		http.NotFound(w, r)
		return
	}
	user, back, spent, err := c.provider.End(r, c.lifetime)
	if spent != nil {
		http.SetCookie(w, spent)
	}
	if err == nil {
		err = c.logIn(w, user)
	}
	c.loggedInBy(r, "oidc", user.Name, err)
	if err != nil {
		c.showLogin(w, r, http.StatusUnauthorized, loginPage{To: local(back), Error: sentence(err)})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, local(back), http.StatusSeeOther)
}

// logout handles POST /logout.
func (c *logins) logout(w http.ResponseWriter, r *http.Request) {
	if user, ok := c.cookies.Identity(r); ok {
		c.audit(r, user, "logout", types.NamespacedName{})(nil)
	}
	http.SetCookie(w, login.Logout())
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// logIn sets the cookie of a user's login.
func (c *logins) logIn(w http.ResponseWriter, user login.Identity) error {
	cookie, err := c.cookies.Login(user)
	if err != nil {
		return err
	}
	http.SetCookie(w, cookie)
	return nil
}

// shown returns what the login page shows of the error of a login by password: a file that cannot be read is
// none of the user's business.
func (c *logins) shown(err error) string {
	var many login.TooManyGroupsError
	if errors.Is(err, login.ErrWrongPassword) || errors.As(err, &many) {
		return sentence(err)
	}
	return "The login does not work at the moment. Ask your administrator."
}

// sentence returns an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// local returns a path of a page of the console, or / for anything else: a link to the login must not lead to
// another site.
func local(path string) string {
	for _, prefix := range []string{"/s/", "/d/", "/new/"} {
		if strings.HasPrefix(path, prefix) && !strings.ContainsAny(path, "\\\r\n") && !strings.Contains(path, "//") {
			return path
		}
	}
	return "/"
}

// addressLimits limits the attempts to log in from each address.
type addressLimits struct{ known *lru.Cache }

const (
	attemptsPerAddress = 30 // a minute: an office may have one address
	maxAddresses       = 8192
)

func newAddressLimits() addressLimits { return addressLimits{lru.New(maxAddresses)} }

func (a addressLimits) allow(address string, now time.Time) bool {
	limiter, ok := a.known.Get(address)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(time.Minute/attemptsPerAddress), attemptsPerAddress)
		a.known.Add(address, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(now, 1)
}
