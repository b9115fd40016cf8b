package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Cookie is the name of the cookie with a login. Browsers accept the prefix only with Secure, for the
// whole of one host and no other.
const Cookie = "__Host-vdi-login"

// maxCookie is the size of a cookie's value that every browser and every proxy accepts beside what else
// a request has.
const maxCookie = 3500

// TooManyGroupsError is the error of a user whose groups do not fit into a cookie.
type TooManyGroupsError struct{ Groups int }

func (e TooManyGroupsError) Error() string {
	return fmt.Sprintf("you are in %d groups, more than fit into a login: ask your administrator to set --oidc-groups-pattern, so that only the groups that matter here are used", e.Groups)
}

// Keys are the keys that cookies are encrypted with, of 32 bytes each.
type Keys interface {
	// Current returns the key to encrypt with, and its ID.
	Current() (id string, key []byte, err error)
	// Key returns the key of an ID, false if it is not accepted any more.
	Key(id string) ([]byte, bool)
}

// Cookies encrypts and decrypts what the console keeps in a browser.
type Cookies struct {
	Keys Keys
	Now  func() time.Time
}

// errNoCookie is the error of a request without a valid cookie.
var errNoCookie = errors.New("no valid cookie")

// Login returns the cookie of an identity.
func (c Cookies) Login(identity Identity) (*http.Cookie, error) {
	value, err := c.seal(forLogin, identity)
	if err != nil {
		return nil, err
	}
	if len(value) > maxCookie {
		return nil, TooManyGroupsError{Groups: len(identity.Groups)}
	}
	return newCookie(Cookie, value, identity.End().Sub(c.Now())), nil
}

// Identity returns the identity of a request's cookie, false if it has none that is valid.
func (c Cookies) Identity(r *http.Request) (Identity, bool) {
	var identity Identity
	if err := c.read(r, Cookie, forLogin, &identity); err != nil || identity.Name == "" || identity.Expired(c.Now()) {
		return Identity{}, false
	}
	return identity, true
}

// Logout returns the cookie that removes a login.
func Logout() *http.Cookie { return newCookie(Cookie, "", -1) }

// newCookie returns a cookie that only this host receives, and no script reads. SameSite is Lax: a link in a
// mail must find its user logged in.
func newCookie(name, value string, lifetime time.Duration) *http.Cookie {
	age := int(lifetime / time.Second)
	if lifetime < 0 {
		age = -1
	}
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// read decrypts a cookie of a request into v.
func (c Cookies) read(r *http.Request, name string, use purpose, v any) error {
	cookie, err := r.Cookie(name)
	if err != nil || len(cookie.Value) > maxCookie {
		return errNoCookie
	}
	return c.unseal(cookie.Value, use, v)
}

// purpose is what an encrypted value is for. No value passes for one of another purpose.
type purpose = jose.ContentType

const (
	forLogin purpose = "login"
	forFlow  purpose = "flow"
)

// seal encrypts v with the current key.
func (c Cookies) seal(use purpose, v any) (string, error) {
	id, key, err := c.Keys.Current()
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	options := (&jose.EncrypterOptions{Compression: jose.DEFLATE}).WithType(use).WithHeader("kid", id)
	encrypter, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("preparing the encryption of a cookie: %w", err)
	}
	sealed, err := encrypter.Encrypt(plain)
	if err != nil {
		return "", fmt.Errorf("encrypting a cookie: %w", err)
	}
	return sealed.CompactSerialize()
}

// unseal decrypts a value with the key that it names.
func (c Cookies) unseal(value string, use purpose, v any) error {
	sealed, err := jose.ParseEncryptedCompact(value, []jose.KeyAlgorithm{jose.DIRECT}, []jose.ContentEncryption{jose.A256GCM})
	if err != nil || sealed.Header.ExtraHeaders[jose.HeaderType] != string(use) {
		return errNoCookie
	}
	key, ok := c.Keys.Key(sealed.Header.KeyID)
	if !ok {
		return errNoCookie
	}
	plain, err := sealed.Decrypt(key)
	if err != nil {
		return errNoCookie
	}
	if err := json.Unmarshal(plain, v); err != nil {
		return errNoCookie
	}
	return nil
}
