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
	// cookieName of who has logged in. Its prefix has browsers accept it from this
	// host by HTTPS alone: a desktop beside this one, under the same domain, can set
	// none that is sent here.
	cookieName = "__Host-vdi-desktop"
	// longestLogin is how many bytes a login may have.
	longestLogin = 8 << 10
)

// guesses a second, and at once, of all who try: few enough to guess nothing, and
// enough that a user gets in beside somebody who tries.
const (
	guessRate  = 5
	guessBurst = 20
	// longestWait of a login for its turn. Who would wait longer is refused at once,
	// so that few wait however many try.
	longestWait = 2 * time.Second
)

//go:embed login.html
var loginText string

var loginPage = template.Must(template.New("login").Parse(loginText))

// door lets in who knows the password.
type door struct {
	file string
	// key of the cookies: new with each start.
	key     []byte
	guesses *rate.Limiter
}

func newDoor(file string) *door {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails: see crypto/rand
	return &door{file: file, key: key, guesses: rate.NewLimiter(guessRate, guessBurst)}
}

// password as it stands now.
func (d *door) password() (string, error) {
	content, err := os.ReadFile(d.file)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(content))
	if password == "" {
		return "", fmt.Errorf("%s is empty", d.file)
	}
	return password, nil
}

// token is what the cookie of somebody has who knew this password.
func (d *door) token(password string) string {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(password))
	return hex.EncodeToString(mac.Sum(nil))
}

// knows whether a request is of somebody who has logged in.
func (d *door) knows(r *http.Request) bool {
	cookies := r.CookiesNamed(cookieName)
	if len(cookies) == 0 {
		return false
	}
	password, err := d.password()
	if err != nil {
		return false
	}
	token := d.token(password)
	return slices.ContainsFunc(cookies, func(c *http.Cookie) bool { return same(c.Value, token) })
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guard sends a stranger's page to the login, and refuses all else of theirs.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case d.knows(r):
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == pagePath):
			http.Redirect(w, r, loginPath, http.StatusSeeOther)
		default:
			http.Error(w, "log in first", http.StatusUnauthorized)
		}
	})
}

// ask shows the login.
func (d *door) ask(w http.ResponseWriter, _ *http.Request) { d.show(w, http.StatusOK, "") }

func (d *door) show(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = loginPage.Execute(w, problem) // whoever asked may be gone
}

// enter takes a login.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, longestLogin)
	ctx, cancel := context.WithTimeout(r.Context(), longestWait)
	defer cancel()
	if err := d.guesses.Wait(ctx); err != nil {
		d.show(w, http.StatusTooManyRequests, "Too many attempts. Wait a moment.")
		return
	}
	password, err := d.password()
	if err != nil {
		d.show(w, http.StatusInternalServerError, "The desktop has no password at the moment.")
		return
	}
	if !same(strings.TrimSpace(r.PostFormValue("password")), password) {
		d.show(w, http.StatusForbidden, "That is not this session's password.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: d.token(password), Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
