package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
)

// ring is keys of a console.
type ring map[string][]byte

func (r ring) Current() (string, []byte, error) { return "a", r["a"], nil }

func (r ring) Key(id string) ([]byte, bool) {
	key, ok := r[id]
	return key, ok
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// at returns cookies of a console with key a, at a time.
func at(now time.Time) Cookies {
	return Cookies{Keys: ring{"a": []byte(strings.Repeat("a", 32))}, Now: func() time.Time { return now }}
}

// request returns a request with cookies.
func request(cookies ...*http.Cookie) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "https://vdi.example.com/", nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

func TestALoginLastsForItsLifetime(t *testing.T) {
	alice, err := New("alice", []string{"staff", "dev", "staff"}, noon, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := at(noon).Login(alice)
	if err != nil {
		t.Fatal(err)
	}
	if !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != 3600 {
		t.Errorf("the cookie is %s", cookie)
	}
	got, ok := at(noon.Add(59 * time.Minute)).Identity(request(cookie))
	want := Identity{Name: "alice", Groups: []string{"dev", "staff"}, IssuedAt: noon.Unix(), Expires: noon.Add(time.Hour).Unix()}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%v: %s", ok, diff)
	}
	if _, ok := at(noon.Add(time.Hour)).Identity(request(cookie)); ok {
		t.Error("a login is valid after its lifetime")
	}
}

func TestACookieOfAnotherKeyIsNoLogin(t *testing.T) {
	alice, _ := New("alice", nil, noon, time.Hour)
	cookie, err := at(noon).Login(alice)
	if err != nil {
		t.Fatal(err)
	}
	other := Cookies{Keys: ring{"a": []byte(strings.Repeat("b", 32))}, Now: at(noon).Now}
	gone := Cookies{Keys: ring{}, Now: at(noon).Now}
	for name, c := range map[string]Cookies{"another key of that ID": other, "no key of that ID": gone} {
		if _, ok := c.Identity(request(cookie)); ok {
			t.Errorf("%s: it is a login", name)
		}
	}
	for i := range cookie.Value {
		changed := *cookie
		flipped := []byte(cookie.Value)
		if flipped[i] = 'A'; cookie.Value[i] == 'A' {
			flipped[i] = 'B'
		}
		changed.Value = string(flipped)
		// The last character of a part can have bits that are not decoded.
		if _, ok := at(noon).Identity(request(&changed)); ok && i+1 < len(cookie.Value) && cookie.Value[i+1] != '.' {
			t.Fatalf("a cookie that was changed at %d of %d is a login", i, len(cookie.Value))
		}
	}
}

// A flow's cookie is encrypted with the same key as a login's: neither passes for the other.
func TestAFlowIsNoLogin(t *testing.T) {
	c := at(noon)
	alice, _ := New("alice", nil, noon, time.Hour)
	value, err := c.seal(forFlow, alice)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Identity(request(newCookie(Cookie, value, time.Hour))); ok {
		t.Errorf("the state of a flow is the login of %v", got)
	}
}

func TestTooManyGroups(t *testing.T) {
	var groups []string
	for i := range 3000 {
		groups = append(groups, fmt.Sprintf("group-of-the-directory-%08x", i*2654435761))
	}
	alice, _ := New("alice", groups, noon, time.Hour)
	_, err := at(noon).Login(alice)
	var many TooManyGroupsError
	if !errors.As(err, &many) || many.Groups != 3000 || !strings.Contains(err.Error(), "--oidc-groups-pattern") {
		t.Errorf("3000 groups: %v", err)
	}
}

func TestNamesOfKubernetesAreRefused(t *testing.T) {
	for name, groups := range map[string][]string{
		"system:admin": nil,
		"system:serviceaccount:vdi-system:vdi-hub": nil,
		"alice": {"staff", "system:masters"},
		"":      nil,
	} {
		if got, err := New(name, groups, noon, time.Hour); err == nil {
			t.Errorf("%q in %v is %v", name, groups, got)
		}
	}
}

// file writes a users file.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hashed returns a hash of a password that is cheap to compare with.
func hashed(password string) string {
	hash, _ := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	return string(hash)
}

func TestUsersFile(t *testing.T) {
	path := file(t, "users:\n- {name: alice, passwordHash: '"+hashed("wonderland")+"', groups: [staff]}\n")
	users, err := NewUsersFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := users.Login("alice", "wonderland", noon, time.Hour); err != nil || got.Name != "alice" || !cmp.Equal(got.Groups, []string{"staff"}) {
		t.Errorf("alice is %v, %v", got, err)
	}
	for name, password := range map[string]string{"alice": "looking-glass", "bob": "wonderland", "mallory": "nobody"} {
		if _, err := users.Login(name, password, noon, time.Hour); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("%s with %s: %v", name, password, err)
		}
	}
	if err := os.WriteFile(path, []byte("users:\n- {name: bob, passwordHash: '"+hashed("builder")+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := users.Login("bob", "builder", noon, time.Hour); err != nil || got.Name != "bob" {
		t.Errorf("after a change of the file bob is %v, %v", got, err)
	}
	if _, err := users.Login("alice", "wonderland", noon, time.Hour); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("alice is still a user: %v", err)
	}
}

func TestAttemptsAreLimitedByName(t *testing.T) {
	users, err := NewUsersFile(file(t, "users:\n- {name: alice, passwordHash: '"+hashed("wonderland")+"'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for range attemptsPerMinute {
		if _, err := users.Login("alice", "guess", noon, time.Hour); !errors.Is(err, ErrWrongPassword) {
			t.Fatal(err)
		}
	}
	if _, err := users.Login("alice", "wonderland", noon, time.Hour); !errors.Is(err, ErrTooManyAttempts) {
		t.Errorf("the sixth attempt: %v", err)
	}
	if _, err := users.Login("bob", "guess", noon, time.Hour); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("another user: %v", err)
	}
	if _, err := users.Login("alice", "wonderland", noon.Add(time.Minute), time.Hour); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

func TestAnInvalidUsersFileIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"empty":          {"", "has no users"},
		"another format": {"alice: secret\n", "must have a list users"},
		"plain password": {"users:\n- {name: alice, passwordHash: secret}\n", "htpasswd"},
		"twice":          {"users:\n- {name: a, passwordHash: '" + hashed("x") + "'}\n- {name: a, passwordHash: '" + hashed("y") + "'}\n", "twice"},
		"of Kubernetes":  {"users:\n- {name: 'system:admin', passwordHash: '" + hashed("x") + "'}\n", "reserved"},
		"misspelled":     {"users:\n- {name: alice, password: secret}\n", "must have a list users"},
	} {
		if _, err := NewUsersFile(file(t, tc.content)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewUsersFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that does not exist is accepted")
	}
}

func TestClaims(t *testing.T) {
	base := Claims{IssuerURL: "https://idp.example.com", UsernameClaim: "sub", GroupsClaim: "groups"}
	for name, tc := range map[string]struct {
		change func(*Claims)
		claims string
		user   string
		groups []string
		err    string
	}{
		"a name gets the issuer as its prefix": {
			nil, `{"sub":"alice","groups":["staff","dev"]}`, "https://idp.example.com#alice", []string{"dev", "staff"}, "",
		},
		"no prefix": {
			func(c *Claims) { c.UsernamePrefix = "-" }, `{"sub":"alice"}`, "alice", nil, "",
		},
		"prefixes": {
			func(c *Claims) { c.UsernamePrefix, c.GroupsPrefix = "idp:", "idp:" }, `{"sub":"alice","groups":["staff"]}`, "idp:alice", []string{"idp:staff"}, "",
		},
		"an email has no prefix": {
			func(c *Claims) { c.UsernameClaim = "email" }, `{"email":"alice@example.com","email_verified":true}`, "alice@example.com", nil, "",
		},
		"an email that is not verified": {
			func(c *Claims) { c.UsernameClaim = "email" }, `{"email":"alice@example.com","email_verified":false}`, "", nil, "not verified",
		},
		"verified as a text": {
			func(c *Claims) { c.UsernameClaim = "email" }, `{"email":"alice@example.com","email_verified":"true"}`, "", nil, "not verified",
		},
		"groups as one text": {
			func(c *Claims) { c.UsernamePrefix = "-" }, `{"sub":"alice","groups":"staff"}`, "alice", []string{"staff"}, "",
		},
		"groups as a number": {
			nil, `{"sub":"alice","groups":7}`, "", nil, "--oidc-groups-claim",
		},
		"no name": {
			nil, `{"groups":["staff"]}`, "", nil, "--oidc-username-claim",
		},
		"a group of Kubernetes": {
			nil, `{"sub":"alice","groups":["system:masters"]}`, "", nil, "reserved",
		},
		"a pattern of groups": {
			func(c *Claims) { c.UsernamePrefix, c.GroupsPattern = "-", regexp.MustCompile("^vdi-") },
			`{"sub":"alice","groups":["vdi-users","mail","vdi-dev"]}`, "alice", []string{"vdi-dev", "vdi-users"}, "",
		},
		"a required claim": {
			func(c *Claims) { c.UsernamePrefix, c.RequiredClaims = "-", map[string]string{"tenant": "ours"} },
			`{"sub":"alice","tenant":"ours"}`, "alice", nil, "",
		},
		"a required claim of another value": {
			func(c *Claims) { c.RequiredClaims = map[string]string{"tenant": "ours"} }, `{"sub":"alice","tenant":"theirs"}`, "", nil, "required",
		},
		"no required claim": {
			func(c *Claims) { c.RequiredClaims = map[string]string{"tenant": "ours"} }, `{"sub":"alice"}`, "", nil, "required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			if tc.change != nil {
				tc.change(&c)
			}
			var claims map[string]json.RawMessage
			if err := json.Unmarshal([]byte(tc.claims), &claims); err != nil {
				t.Fatal(err)
			}
			got, err := c.identity(claims, noon, time.Hour)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v; want an error with %q", got, err, tc.err)
				}
				return
			}
			if err != nil || got.Name != tc.user || !cmp.Equal(got.Groups, tc.groups) {
				t.Errorf("%q in %q, %v", got.Name, got.Groups, err)
			}
		})
	}
}
