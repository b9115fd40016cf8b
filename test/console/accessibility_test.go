package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// checks returns the problems of a page that readers of it would have: headings, labels, contrast.
//
//go:embed checks.js
var checks string

// named are the roles of controls, which must have a name.
var named = map[string]bool{"button": true, "link": true, "textbox": true, "combobox": true, "checkbox": true, "searchbox": true, "radio": true, "img": true}

// T11: what a screen reader reads, and what anybody can read in light and dark.
func TestAccessibility(t *testing.T) {
	p := open(t).tab().login("alice")
	path := start(p, "browser")
	defer end(p, path)
	for _, scheme := range []string{"light", "dark"} {
		p.do("choosing a color scheme", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
		for _, page := range []string{"/", "/new/browser", path, "/s/desktops/none"} {
			p.visit(page)
			problems, err := eval[[]string](p, checks)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range append(problems, p.unnamed()...) {
				t.Errorf("%s in %s: %s", page, scheme, problem)
			}
			p.shot(scheme + strings.TrimSuffix(strings.ReplaceAll(page, "/", "-"), "-"))
		}
	}
}

// unnamed returns the controls of the page's accessibility tree that have no name.
func (p *tab) unnamed() (out []string) {
	p.t.Helper()
	p.do("reading the accessibility tree", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		tree, err := cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			return err
		}
		for _, n := range tree.Nodes {
			if role := text(n.Role); !n.Ignored && named[role] && strings.TrimSpace(text(n.Name)) == "" {
				out = append(out, fmt.Sprintf("a %s has no name (node %s)", role, n.NodeID))
			}
		}
		return nil
	}))
	return out
}

// text returns a value of the accessibility tree.
func text(v *accessibility.Value) (s string) {
	if v != nil {
		_ = json.Unmarshal(v.Value, &s) // else it is no text
	}
	return s
}

// T12: everything by keyboard.
func TestKeyboard(t *testing.T) {
	p := open(t).tab()
	p.visit("/login")
	p.expect("the page has the focus on the name", `document.hasFocus() && document.activeElement.name === "name"`)
	p.do("logging in by keyboard", chromedp.KeyEvent("alice"+kb.Tab+"alice"+kb.Enter))
	p.expectText("My desktops")
	p.focus("#offer-browser")
	p.do("choosing a template", chromedp.KeyEvent(kb.Enter))
	p.expectText("Start Secure browser")
	p.do("starting it", chromedp.KeyEvent(kb.Enter))
	p.until("the page of the session opens", func() bool { return strings.HasPrefix(p.path(), "/s/") })
	defer end(p, p.path())
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	p.focus("#session form[action$='/suspend'] button")
	p.do("suspending it", chromedp.KeyEvent(kb.Enter))
	p.expectText("My desktops")
	p.expect("home shows it suspended", `document.querySelector("#desktops .suspended") !== null`)
}

// focus moves the focus to an element by the key Tab.
func (p *tab) focus(selector string) {
	p.t.Helper()
	for range 40 {
		p.do("moving the focus", chromedp.KeyEvent(kb.Tab))
		if at, err := eval[bool](p, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)); err == nil && at {
			visible, err := eval[bool](p, `getComputedStyle(document.activeElement).outlineStyle !== "none"`)
			if err != nil || !visible {
				p.t.Errorf("the focus on %s can't be seen: %v", selector, err)
			}
			return
		}
	}
	p.t.Fatalf("the key Tab does not reach %s", selector)
}

// T12: lists and actions without scripts.
func TestWithoutScripts(t *testing.T) {
	p := open(t, chromedp.Flag("blink-settings", "scriptEnabled=false")).tab()
	p.visit("/")
	p.login("alice")
	path := start(p, "browser")
	defer end(p, path)
	p.until("the desktop runs", func() bool {
		p.visit(path)
		return p.has("#session.running")
	})
	p.click("#session form[action$='/suspend'] button")
	p.until("the list of desktops opens", func() bool { return p.path() == "/" })
	p.until("home shows it suspended", func() bool {
		p.visit("/")
		return p.has("#desktops .suspended")
	})
	p.click("#desktops form[action$='/wake'] button")
	p.until("the page of the session opens", func() bool { return p.path() == path })
	p.until("the desktop runs again", func() bool {
		p.visit(path)
		return p.has("#session.running")
	})
}

// T12: on a phone.
func TestNarrowScreens(t *testing.T) {
	p := open(t).tab().login("alice")
	path := start(p, "browser")
	defer end(p, path)
	p.do("shrinking the window", chromedp.EmulateViewport(320, 640))
	for _, page := range []string{"/", "/new/browser", path} {
		p.visit(page)
		p.expect(page+" fits into 320 pixels", `document.documentElement.scrollWidth <= 320`)
		p.shot("narrow" + strings.TrimSuffix(strings.ReplaceAll(page, "/", "-"), "-"))
	}
}
