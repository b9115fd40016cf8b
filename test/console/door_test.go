package console

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// doorPrefix begins the paths of a door.
const doorPrefix = "/.well-known/vdi/door/"

// opened starts a desktop and waits until the frame shows it.
func opened(p *tab) (path string) {
	p.t.Helper()
	path = start(p, "browser")
	p.t.Cleanup(func() { end(p, path) })
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	p.works(p.region())
	return path
}

// T1, A7: the desktop is in the page, without a password, a redirect or a secret in an address.
func TestTheDesktopIsInThePage(t *testing.T) {
	p := open(t).tab().login("alice")
	opened(p)
	p.shot("desktop")
	origin := p.origin()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := 0
	for _, r := range p.requests {
		u, err := url.Parse(r.Request.URL)
		if err != nil {
			t.Fatal(err)
		}
		ofDesktop := u.Scheme+"://"+u.Host == origin
		if ofDesktop && r.RedirectResponse != nil {
			t.Errorf("a redirect leads to %s", u)
		}
		if !ofDesktop && !strings.HasSuffix(u.Path, "/pass") {
			continue
		}
		if ofDesktop && !strings.HasPrefix(u.Path, doorPrefix) {
			break // the desktop's own
		}
		before++
	}
	if before == 0 || before > 4 {
		t.Errorf("%d requests before the desktop's first", before)
	}
}

// T5: what admits a browser admits no other, and is in no address, no log and no header that leaves the browser's two
// sides.
func TestAStolenPassOpensNothing(t *testing.T) {
	alice := open(t).tab().login("alice")
	opened(alice)
	origin := alice.origin()
	u, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	cookies := alice.cookies(u.Hostname())
	pass, nonce := cookies["__Host-vdi-pass"], cookies["__Host-vdi-nonce"]
	if pass == nil || nonce == nil || !pass.HTTPOnly || !nonce.HTTPOnly || len(pass.Value)+len(nonce.Value) > 700 {
		t.Fatalf("the cookies of the desktop's host are %+v", cookies)
	}
	bob := open(t).tab().login("bob")
	opened(bob)
	theirs, err := url.Parse(bob.origin())
	if err != nil {
		t.Fatal(err)
	}
	other := bob.cookies(theirs.Hostname())["__Host-vdi-nonce"]
	with := func(cookies ...string) http.Header { return http.Header{"Cookie": {strings.Join(cookies, "; ")}} }
	for name, tc := range map[string]struct {
		origin  string
		cookies []string
		want    int
	}{
		"the browser":                      {origin, []string{"__Host-vdi-pass=" + pass.Value, "__Host-vdi-nonce=" + nonce.Value}, http.StatusOK},
		"the pass alone":                   {origin, []string{"__Host-vdi-pass=" + pass.Value}, http.StatusUnauthorized},
		"another browser":                  {origin, []string{"__Host-vdi-pass=" + pass.Value, "__Host-vdi-nonce=" + other.Value}, http.StatusUnauthorized},
		"another desktop":                  {bob.origin(), []string{"__Host-vdi-pass=" + pass.Value, "__Host-vdi-nonce=" + nonce.Value}, http.StatusUnauthorized},
		"two nonces, one of them its own":  {origin, []string{"__Host-vdi-pass=" + pass.Value, "__Host-vdi-nonce=x", "__Host-vdi-nonce=" + nonce.Value}, http.StatusUnauthorized},
		"nothing":                          {origin, nil, http.StatusUnauthorized},
		"nothing, at a host of no desktop": {"http://none." + strings.SplitN(u.Host, ".", 2)[1], nil, http.StatusUnauthorized},
	} {
		if got, _, err := request(t.Context(), http.MethodGet, tc.origin, "/", "", with(tc.cookies...)); err != nil || got != tc.want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	// A person who opens the desktop's address is led to the page that obtains a pass.
	person := http.Header{"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	if code, to, err := request(t.Context(), http.MethodGet, origin, "/", "", person); err != nil || code != http.StatusSeeOther || to != base+alice.path() {
		t.Errorf("the desktop's own address: %d to %q, %v", code, to, err)
	}
	noSecretIn(t, alice, pass.Value, nonce.Value, strings.SplitN(pass.Value, ".", 3)[2])
}

// noSecretIn fails if an address, a Referer, or a log of the fleet has a secret.
func noSecretIn(t *testing.T, p *tab, secrets ...string) {
	t.Helper()
	p.mu.Lock()
	for _, r := range p.requests {
		for _, secret := range secrets {
			if strings.Contains(r.Request.URL, secret) || strings.Contains(fmt.Sprint(r.Request.Headers["Referer"]), secret) {
				t.Errorf("a secret is in the address or the Referer of %s", r.Request.URL)
			}
		}
	}
	p.mu.Unlock()
	logs, err := filepath.Glob(filepath.Join(fleetDir, "logs", "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("the fleet has no logs: %v", err)
	}
	for _, file := range logs {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(content), secret) {
				t.Errorf("a secret is in %s", filepath.Base(file))
			}
		}
	}
}

// T6, second half: the frame follows a suspension and the return, in each open tab, and no tab wakes the session.
func TestTheFrameFollowsASuspension(t *testing.T) {
	b := open(t)
	p := b.tab().login("alice")
	path := opened(p)
	kept := b.tab()
	kept.visit(path)
	kept.works(kept.region())
	p.click("#session form[action$='/suspend'] button")
	p.expectText("My desktops")
	kept.expect("the open tab has no desktop", `document.querySelector("#stage").hidden`)
	time.Sleep(settle) // what an open tab might do
	kept.expect("it still shows it suspended", `document.querySelector("#session").classList.contains("suspended")`)
	bookmark := b.tab()
	bookmark.visit(path)
	bookmark.expect("the bookmark wakes it", `document.querySelector("#session").classList.contains("running")`)
	bookmark.works(bookmark.region())
	kept.works(kept.region())
}

// T7: a page says which part of the way to the desktop does not work, and opens the desktop once it does.
func TestABrowserThatDoesNotReachTheDesktop(t *testing.T) {
	t.Run("name", func(t *testing.T) {
		p := open(t, chromedp.Flag("host-resolver-rules", "MAP *.eu-west.vdi.localhost ~NOTFOUND, MAP *.us-east.vdi.localhost ~NOTFOUND")).tab().login("alice")
		p.refused = true
		path := start(p, "browser")
		t.Cleanup(func() { end(p, path) })
		p.expectText("your browser does not. Check your network")
		p.shot("name")
	})
	t.Run("WebSocket", func(t *testing.T) {
		between := newProxy(t)
		between.cookies.Store(true)
		p := openBehind(t, between).tab().login("alice")
		p.refused = true
		path := start(p, "browser")
		t.Cleanup(func() { end(p, path) })
		p.expectText("lets no WebSockets pass")
		p.shot("websocket")
		between.websockets.Store(true)
		p.works(p.region())
	})
	t.Run("cookies", func(t *testing.T) {
		between := newProxy(t)
		between.websockets.Store(true)
		p := openBehind(t, between).tab().login("alice")
		path := start(p, "browser")
		t.Cleanup(func() { end(p, path) })
		p.expectText("refuses the cookies of")
		p.shot("cookies")
		between.cookies.Store(true)
		p.works(p.region())
	})
}

// T7: a door that is down is named, and the page goes on by itself once it is back.
func TestADoorThatIsDown(t *testing.T) {
	p := open(t).tab().login("alice")
	path := start(p, "browser")
	t.Cleanup(func() { end(p, path) })
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	region := p.region()
	p.works(region)
	p.refused = true
	fleetDo(t.Context(), t, "kill", region+"-door")
	p.visit("/")
	p.visit(path)
	p.expectText("answers, but not as it should")
	p.shot("door-down")
	fleetDo(t.Context(), t, "start", region+"-door")
	p.works(region)
}
