package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// inFrame evaluates an expression in the frame with the desktop, of the page as it is now.
func inFrame[T any](p *tab, expression string) (value T, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err = chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		tree, err := cdp.Call(ctx, target, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return err
		}
		if len(tree.FrameTree.ChildFrames) != 1 {
			return fmt.Errorf("the page has %d frames", len(tree.FrameTree.ChildFrames))
		}
		frame := tree.FrameTree.ChildFrames[0].Frame.ID
		world, err := cdp.Call(ctx, target, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: frame})
		if err != nil {
			return err
		}
		byValue := true
		result, err := cdp.Call(ctx, target, runtime.Evaluate, runtime.EvaluateParams{
			Expression: expression, ContextID: world.ExecutionContextID, ReturnByValue: &byValue,
		})
		switch {
		case err != nil:
			return err
		case result.ExceptionDetails != nil:
			return errors.New(result.ExceptionDetails.Text)
		}
		return json.Unmarshal(result.Result.Value, &value)
	}))
	return value, err
}

// expectFrame waits until an expression is true in the frame with the desktop.
func (p *tab) expectFrame(what, expression string) {
	p.t.Helper()
	p.until(what, func() bool {
		yes, err := inFrame[bool](p, expression)
		return err == nil && yes
	})
}

// works waits until the frame shows the sample desktop of a region, and types into it.
func (p *tab) works(region string) {
	p.t.Helper()
	p.expectFrame("the frame shows the desktop in "+region, fmt.Sprintf(
		`document.querySelector("h1")?.textContent.includes(%q) && document.querySelector("#keys").dataset.state === "connected"`, " on node-"+region))
	before, err := inFrame[string](p, `document.querySelector("#keys").textContent`)
	if err != nil {
		p.t.Fatal(err)
	}
	p.click("#frame")
	p.until("the desktop receives keys", func() bool {
		p.do("typing", chromedp.KeyEvent("a"))
		keys, err := inFrame[string](p, `document.querySelector("#keys").textContent`)
		return err == nil && keys != before
	})
}

// region returns the region that the page of a session shows.
func (p *tab) region() string {
	p.t.Helper()
	region, err := eval[string](p, `document.querySelector("#session .state").nextElementSibling.textContent`)
	if err != nil || regions[region] == "" {
		p.t.Fatalf("it runs in %q: %v", region, err)
	}
	return region
}

// origin returns the origin of the desktop that the page of a session frames.
func (p *tab) origin() string {
	p.t.Helper()
	origin, err := eval[string](p, `document.querySelector("#session").dataset.origin`)
	if err != nil || origin == "" {
		p.t.Fatalf("the page has no desktop: %v", err)
	}
	return origin
}

// cookies returns the cookies of the browser for a host, by name.
func (p *tab) cookies(host string) map[string]*network.Cookie {
	p.t.Helper()
	out := map[string]*network.Cookie{}
	p.do("reading the cookies", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		all, err := cdp.Call(ctx, target, storage.GetCookies, storage.GetCookiesParams{})
		if err != nil {
			return err
		}
		for _, c := range all.Cookies {
			if c.Domain == host {
				out[c.Name] = c
			}
		}
		return nil
	}))
	return out
}

// request sends a request to a desktop's host, as a program without a browser would, and returns where the response
// leads to.
func request(ctx context.Context, method, origin, path, body string, header http.Header) (code int, to string, err error) {
	u, err := url.Parse(origin + path)
	if err != nil {
		return 0, "", err
	}
	name := u.Host
	u.Host = "127.0.0.1:" + u.Port()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Host, r.Header = name, header
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, response.Header.Get("Location"), response.Body.Close()
}
