package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	// cookieName is the cookie of a login. Because of its prefix browsers accept it only from
	// this host and with HTTPS: another desktop under the same domain cannot set it.
	cookieName = "__Host-vdi-desktop"
	// longestLogin is the maximum size of a login, in bytes.
	longestLogin = 8 << 10
)

// The rate limit of logins, per second and burst, for all callers together: low enough to
// prevent guessing, and high enough for a user to log in during an attack.
const (
	loginRate  = 5
	loginBurst = 20
	// longestWait is the longest delay of a login by the rate limit. A login that would be
	// delayed longer is refused at once, so that few are queued.
	longestWait = 2 * time.Second
)

//go:embed login.html
var loginText string

var loginPage = template.Must(template.New("login").Parse(loginText))

// login authenticates callers by the session's password.
type login struct {
	file string
	// key signs the cookies; it is new with each start.
	key     []byte
	limiter *rate.Limiter
}

func newLogin(file string) *login {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails, see crypto/rand
	return &login{file: file, key: key, limiter: rate.NewLimiter(loginRate, loginBurst)}
}

// password returns the current password.
func (l *login) password() (string, error) {
	content, err := os.ReadFile(l.file)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(content))
	if password == "" {
		return "", fmt.Errorf("%s is empty", l.file)
	}
	return password, nil
}

// token returns the value of the cookie for a password.
func (l *login) token(password string) string {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(password))
	return hex.EncodeToString(mac.Sum(nil))
}

// loggedIn reports whether the request has the cookie of a login, or the password by Basic authentication, as
// the door of a member supplies it.
func (l *login) loggedIn(r *http.Request) bool {
	cookies := r.CookiesNamed(cookieName)
	_, sent, basic := r.BasicAuth()
	if len(cookies) == 0 && !basic {
		return false
	}
	password, err := l.password()
	if err != nil {
		return false
	}
	if basic && l.isPassword(sent, password) {
		return true
	}
	token := l.token(password)
	return slices.ContainsFunc(cookies, func(c *http.Cookie) bool { return equal(c.Value, token) })
}

// isPassword reports whether a password by Basic authentication is the desktop's. Only wrong ones count against the rate
// limit, since a page makes many requests; beyond the limit none is checked.
func (l *login) isPassword(sent, password string) bool {
	if l.limiter.Tokens() < 1 {
		return false
	}
	if equal(sent, password) {
		return true
	}
	l.limiter.Allow()
	return false
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// require redirects page requests without a login to the login form, and refuses all others.
func (l *login) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case l.loggedIn(r):
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == pagePath):
			http.Redirect(w, r, loginPath, http.StatusSeeOther)
		default:
			http.Error(w, "log in first", http.StatusUnauthorized)
		}
	})
}

// form shows the login form.
func (l *login) form(w http.ResponseWriter, _ *http.Request) { l.show(w, http.StatusOK, "") }

func (l *login) show(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = loginPage.Execute(w, problem) // the client may have disconnected
}

// submit handles a submitted login form.
func (l *login) submit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, longestLogin)
	ctx, cancel := context.WithTimeout(r.Context(), longestWait)
	defer cancel()
	if err := l.limiter.Wait(ctx); err != nil {
		l.show(w, http.StatusTooManyRequests, "Too many attempts. Wait a moment.")
		return
	}
	password, err := l.password()
	if err != nil {
		l.show(w, http.StatusInternalServerError, "The desktop has no password at the moment.")
		return
	}
	if !equal(strings.TrimSpace(r.PostFormValue("password")), password) {
		l.show(w, http.StatusForbidden, "That is not this session's password.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: l.token(password), Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
