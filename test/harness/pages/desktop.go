package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// Desktop is a desktop that a browser has opened.
type Desktop struct {
	browser *Browser
	// Origin of the desktop, and Path of its page.
	Origin, Path string
}

// ErrNoDesktop is the error of a session's page that shows no desktop.
var ErrNoDesktop = errors.New("the page shows no desktop")

var desktopOrigin = regexp.MustCompile(`data-origin="([^"]*)"`)

// Open opens the desktop of a session's page, as the page's script and the frame's do.
func (b *Browser) Open(ctx context.Context, path string) (*Desktop, error) {
	page, err := b.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	found := desktopOrigin.FindStringSubmatch(page.Body)
	if found == nil {
		return nil, fmt.Errorf("%w: %s is %d %s", ErrNoDesktop, path, page.Status, page.Body)
	}
	origin := found[1]
	if err := b.expect(b.read(b.do(ctx, http.MethodGet, origin+visit.HelloPath, ""))); err != nil {
		return nil, fmt.Errorf("the hello of %s: %w", origin, err)
	}
	check, err := b.read(b.do(ctx, http.MethodGet, origin+visit.CheckPath, ""))
	if err != nil {
		return nil, err
	}
	var challenge, answer map[string]string
	if err := json.Unmarshal([]byte(check.Body), &challenge); err != nil || challenge["challenge"] == "" {
		return nil, fmt.Errorf("%s returns no challenge: %d %s", origin, check.Status, check.Body)
	}
	pass, err := b.Post(ctx, path+"/pass", url.Values{"origin": {origin}, "challenge": {challenge["challenge"]}})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(pass.Body), &answer); err != nil || answer["pass"] == "" {
		return nil, fmt.Errorf("there is no pass for %s: %d %s", path, pass.Status, pass.Body)
	}
	entered, err := b.read(b.do(ctx, http.MethodPost, origin+visit.EnterPath, answer["pass"]))
	if err := b.expect(entered, err); err != nil {
		return nil, fmt.Errorf("entering %s: %w", origin, err)
	}
	return &Desktop{browser: b, Origin: origin, Path: entered.Body}, nil
}

// expect returns an error unless a page is there.
func (*Browser) expect(p Page, err error) error {
	if err == nil && p.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", p.Status, p.Body)
	}
	return err
}

// Get opens a path of the desktop.
func (d *Desktop) Get(ctx context.Context, path string) (Page, error) {
	return d.browser.read(d.browser.do(ctx, http.MethodGet, d.Origin+path, ""))
}

// Visit opens an address of any host of the fleet.
func (b *Browser) Visit(ctx context.Context, address string) (Page, error) {
	return b.read(b.do(ctx, http.MethodGet, address, ""))
}
