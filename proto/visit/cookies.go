package visit

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// The cookies of a desktop's host. Browsers accept the prefix only with Secure, for one host and no other.
const (
	NonceCookie = "__Host-vdi-nonce"
	PassCookie  = "__Host-vdi-pass"
)

// nonceLifetime is how long a browser has for entering; with a pass the nonce lives as long as that.
const nonceLifetime = 10 * time.Minute

// Cookies makes the cookies of a desktop's host.
type Cookies struct {
	// CrossSite is true if console and desktops are not of the same site: the desktop's frame is then one of a third
	// party, which has its own cookies for each site that frames it.
	CrossSite bool
}

// NewNonce returns the cookie with a new nonce.
func (c Cookies) NewNonce() *http.Cookie { return c.cookie(NonceCookie, rand.Text(), nonceLifetime) }

// Entered returns the cookies of a browser that has entered with a pass.
func (c Cookies) Entered(token, nonce string, p Pass, now time.Time) []*http.Cookie {
	lifetime := p.End().Sub(now)
	return []*http.Cookie{c.cookie(PassCookie, token, lifetime), c.cookie(NonceCookie, nonce, lifetime)}
}

func (c Cookies) cookie(name, value string, lifetime time.Duration) *http.Cookie {
	cookie := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(lifetime / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if c.CrossSite {
		cookie.SameSite, cookie.Partitioned = http.SameSiteNoneMode, true
	}
	return cookie
}

// SiteOf returns the site of a host: its last labels with one that was registered; "" if it has none.
func SiteOf(host string) string {
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return ""
	}
	return site
}

// CrossSite reports whether browsers treat two hosts as different sites.
func CrossSite(a, b string) bool {
	site := SiteOf(a)
	return site == "" || site != SiteOf(b)
}

// Value returns the value of a request's cookie, "" unless it has that cookie once.
func Value(r *http.Request, name string) string {
	var value string
	for i, c := range r.CookiesNamed(name) {
		if i > 0 {
			return ""
		}
		value = c.Value
	}
	return value
}

// Strip removes the cookies of console and door from a request, which no desktop may read.
func Strip(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		parts := slices.DeleteFunc(strings.Split(line, ";"), func(part string) bool {
			return strings.HasPrefix(strings.TrimSpace(part), "__Host-vdi-")
		})
		if rest := strings.TrimSpace(strings.Join(parts, ";")); rest != "" {
			kept = append(kept, rest)
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h["Cookie"] = kept
	}
}
