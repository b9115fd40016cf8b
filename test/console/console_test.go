package console

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// settle is how long a page has for what it must not do.
const settle = 3 * time.Second

// start starts a desktop of a template from a user's home page, and returns its path.
func start(p *tab, template string) string {
	p.t.Helper()
	p.visit("/")
	p.click("#offer-" + template)
	p.click("form[action^='/new/'] button")
	p.until("the page of the session opens", func() bool { return strings.HasPrefix(p.path(), "/s/") })
	return p.path()
}

// end ends a session by kubectl, at the end of a test.
func end(p *tab, path string) {
	parts := strings.Split(path, "/")
	if _, err := kubectl(context.WithoutCancel(p.t.Context()), "delete", "vdisession", "-n", parts[2], parts[3], "--ignore-not-found", "--wait=false"); err != nil {
		p.t.Error(err)
	}
}

// T1: from the first login to a running desktop, seen live, without a command.
func TestFirstLoginToDesktop(t *testing.T) {
	p := open(t).tab().login("alice")
	p.expectText("Secure browser")
	p.shot("home")
	path := start(p, "browser")
	defer end(p, path)
	// The page is not loaded again.
	if _, err := eval[bool](p, `window.notLoadedAgain = true`); err != nil {
		t.Fatal(err)
	}
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	p.expect("the page was not loaded again", `window.notLoadedAgain === true`)
	if p.has("#session a[id^=open-]") {
		t.Error("the page of the session has a link to itself")
	}
	p.expect("the change was announced", `document.querySelector("#announcement").textContent.includes("running")`)
	p.shot("running")
	p.visit("/")
	p.expect("the home page shows it", `document.querySelector("#desktops .running") !== null`)
	p.shot("home-running")
}

// T4: two users can't see, guess or act on each other's sessions.
func TestUsersAreApart(t *testing.T) {
	alice := open(t).tab().login("alice")
	path := start(alice, "browser")
	defer end(alice, path)
	bob := open(t).tab().login("bob")
	name := path[strings.LastIndex(path, "/")+1:]
	if strings.Contains(bob.text(), name) {
		t.Errorf("bob sees %s:\n%s", name, bob.text())
	}
	bob.visit(path)
	bob.expectText("There is no such page")
	for _, action := range []string{"suspend", "end", "retry", "extend", "wake"} {
		status, err := evalAsync[int](bob, fmt.Sprintf(`fetch(%q, {method: "POST", body: new URLSearchParams({uid: ""})}).then(r => r.status)`, path+"/"+action))
		if err != nil || status != 404 {
			t.Errorf("bob's %s: %d, %v", action, status, err)
		}
	}
	alice.expect("it still runs or starts", `!document.querySelector("#session").classList.contains("ending")`)
}

// T6, first half: a bookmark wakes a suspended session, and a page that was open when it was suspended never does.
func TestWakeByBookmark(t *testing.T) {
	b := open(t)
	p := b.tab().login("alice")
	path := start(p, "browser")
	defer end(p, path)
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	kept := b.tab()
	kept.visit(path)
	kept.expect("a second tab shows it", `document.querySelector("#session").classList.contains("running")`)
	p.click("#session form[action$='/suspend'] button")
	p.expectText("My desktops")
	p.expect("home shows it suspended", `document.querySelector("#desktops .suspended") !== null`)
	kept.expect("the open tab shows it suspended", `document.querySelector("#session").classList.contains("suspended")`)
	mode := func() string {
		parts := strings.Split(path, "/")
		mode, err := kubectl(t.Context(), "get", "vdisession", "-n", parts[2], parts[3], "-o", "jsonpath={.spec.operatingMode}")
		if err != nil {
			t.Fatal(err)
		}
		return mode
	}
	time.Sleep(settle) // what an open tab might do
	if got := mode(); got != "Suspended" {
		t.Fatalf("with a tab open the session is %s", got)
	}
	bookmark := b.tab()
	bookmark.visit(path)
	bookmark.expect("the bookmark wakes it", `document.querySelector("#session").classList.contains("running")`)
	kept.expect("the open tab follows", `document.querySelector("#session").classList.contains("running")`)
}
