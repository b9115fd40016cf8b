package console

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take to show something, on a busy machine.
const patience = 2 * time.Minute

// browser is a browser of one user: cookies are shared by its tabs, and with no other browser.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// tab is a tab of a browser.
type tab struct {
	*browser
	ctx context.Context

	// refused tolerates requests that fail: a test causes them. It is set before the page sends any.
	refused bool

	mu       sync.Mutex
	problems []string
	requests []*network.EventRequestWillBeSent
}

// open starts a browser that ends with the test.
func open(t *testing.T, options ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no chromium on this machine: install Debian's package of that name")
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(1280, 800), chromedp.DisableGPU,
		// Its sandbox needs privileges that root in a container does not have.
		chromedp.NoSandbox,
		chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(patience),
	)
	allocator, end := chromedp.NewExecAllocator(t.Context(), append(all, options...)...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	return &browser{t, ctx}
}

// tab opens a tab, whose problems fail the test at its end.
func (b *browser) tab() *tab {
	b.t.Helper()
	p := &tab{browser: b}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithListener(p.listen))
	p.ctx = ctx
	b.t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			b.t.Error(problem)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		b.t.Fatalf("opening a tab: %v", err)
	}
	go func() {
		for message, err := range chromedp.Console(ctx) {
			if err != nil {
				return // the tab is closed
			}
			// A page may be refused, and a desktop that ends cuts its WebSocket.
			refused := strings.Contains(message.Text, "status of 4") || strings.Contains(message.Text, "WebSocket connection to") ||
				p.refused && !message.IsException()
			if (message.IsException() || message.Type == "error") && !refused {
				p.problem("the browser's console has an error: " + message.String())
			}
		}
	}()
	return p
}

func (p *tab) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// listen records the requests of the tab.
func (p *tab) listen(event any) {
	sent, ok := event.(*network.EventRequestWillBeSent)
	if !ok {
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, sent)
	p.mu.Unlock()
	if u, err := url.Parse(sent.Request.URL); err == nil && u.Host != host && !isDesktop(u) && u.Host != hostOf(issuer) && u.Scheme != "data" {
		p.problem("a page of the console sent a request to another host: " + sent.Request.URL)
	}
}

// isDesktop reports whether an address is that of a desktop.
func isDesktop(u *url.URL) bool { return strings.HasSuffix(u.Host, "."+host) }

// do runs steps.
func (p *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.shot("failure")
		p.t.Fatalf("%s: %v; the page shows:\n%s", what, err, p.text())
	}
}

// visit opens a path of the console.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do("opening "+path, chromedp.Navigate(base+path))
}

// click clicks what a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do("clicking "+selector, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// text returns what the page shows.
func (p *tab) text() string {
	text, err := eval[string](p, `document.body.innerText`)
	if err != nil {
		return err.Error()
	}
	return text
}

// eval evaluates an expression in a tab.
func eval[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// evalAsync evaluates an expression whose value is a promise.
func evalAsync[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// has reports whether the page has an element.
func (p *tab) has(selector string) bool {
	yes, err := eval[bool](p, fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
	return err == nil && yes
}

// expect waits until an expression is true.
func (p *tab) expect(what, expression string) {
	p.t.Helper()
	p.until(what, func() bool {
		yes, err := eval[bool](p, expression)
		return err == nil && yes
	})
}

// expectText waits until the page shows a text.
func (p *tab) expectText(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the page shows %q", text), func() bool { return strings.Contains(p.text(), text) })
}

func (p *tab) until(what string, holds func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.shot("failure")
			p.t.Fatalf("it does not hold that %s; the page shows:\n%s", what, p.text())
		}
	}
}

// path returns the path of the page.
func (p *tab) path() string {
	path, _ := eval[string](p, `location.pathname`)
	return path
}

// shot takes a screenshot into dist/console.
func (p *tab) shot(name string) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("taking a screenshot: %v", err)
		return
	}
	file := filepath.Join(artifacts, strings.ReplaceAll(p.t.Name(), "/", "-")+"-"+name+".png")
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// login logs a user in, whose password is the name, and returns the tab.
func (p *tab) login(user string) *tab {
	p.t.Helper()
	p.visit("/")
	p.do("logging in",
		chromedp.WaitVisible(chromedp.CSS(`input[name=name]`)),
		chromedp.SendKeys(chromedp.CSS(`input[name=name]`), user),
		chromedp.SendKeys(chromedp.CSS(`input[name=password]`), user),
		chromedp.Submit(chromedp.CSS(`input[name=password]`)))
	p.expectText("My desktops")
	return p
}
