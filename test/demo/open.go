package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
)

const (
	// opens is the session that alice opens in the console.
	opens = "alice-browser"
	// travels is a session of alice in the region that is lost.
	travels = "alice-travel"
)

// visits are those of a user who opens desktops in the console.
type visits struct {
	*demo
	alice *pages.Browser
}

// address returns the console's origin and the path of a session's page, from the session's address.
func (d *visits) address(ctx context.Context, session string) (origin, path string, err error) {
	address, err := d.field(ctx, "vdisession/"+session, ".status.url")
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", "", fmt.Errorf("claimed: %s has an address; it is %q", session, address)
	}
	return u.Scheme + "://" + u.Host, u.Path, nil
}

// open opens a desktop in the console by HTTP alone, as a browser does.
func (d *visits) open(ctx context.Context) error {
	d.announce("alice opens her desktop in the console: she logs in, and needs no password of the desktop")
	origin, path, err := d.address(ctx, opens)
	if err != nil {
		return err
	}
	if d.alice, err = pages.New(origin); err != nil {
		return err
	}
	if err := d.alice.Login(ctx, "alice"); err != nil {
		return err
	}
	fmt.Printf("   logged in at %s\n", origin)
	return d.desktop(ctx, opens, path)
}

// desktop opens the desktop of a session's page, and checks that its Pod in the session's member serves it.
func (d *visits) desktop(ctx context.Context, session, path string) error {
	member, err := d.member(ctx, session)
	if err != nil {
		return err
	}
	return d.until(ctx, fmt.Sprintf("%s shows the desktop of its Pod in %s", path, member), func() (bool, string) {
		shown, err := d.alice.Open(ctx, path)
		if err != nil {
			return false, err.Error()
		}
		page, err := shown.Get(ctx, shown.Path)
		if err != nil {
			return false, err.Error()
		}
		is := page.Status == http.StatusOK && strings.Contains(page.Body, "on node-"+member) && strings.Contains(page.Body, session)
		return is, fmt.Sprintf("%s is %d %s", shown.Origin, page.Status, page.Body)
	})
}

// wake suspends a session by its page, and wakes it by its address alone.
func (d *visits) wake(ctx context.Context) error {
	d.announce("She suspends it, and wakes it by opening its address, which never changes")
	_, path, err := d.address(ctx, opens)
	if err != nil {
		return err
	}
	if err := d.submit(ctx, path, "suspend"); err != nil {
		return err
	}
	if err := d.phase(ctx, opens, "Pending"); err != nil {
		return err
	}
	if _, err := d.alice.Open(ctx, path); !errors.Is(err, pages.ErrNoDesktop) {
		return fmt.Errorf("claimed: a suspended session shows no desktop; but %w", err)
	}
	if err := d.submit(ctx, path, "wake"); err != nil {
		return err
	}
	if err := d.phase(ctx, opens, "Running"); err != nil {
		return err
	}
	return d.desktop(ctx, opens, path)
}

// submit submits a form of a session's page.
func (d *visits) submit(ctx context.Context, path, action string) error {
	page, err := d.alice.Get(ctx, path)
	if err != nil {
		return err
	}
	uid, err := page.Value("uid")
	if err != nil {
		return err
	}
	done, err := d.alice.Post(ctx, path+"/"+action, url.Values{"uid": {uid}})
	if err == nil && done.Status != http.StatusSeeOther {
		err = fmt.Errorf("claimed: alice may %s her session; the console answers %d %s", action, done.Status, done.Body)
	}
	return err
}

// sameAddress shows that a session of the lost region is at the same address, in another region.
func (d *visits) sameAddress(ctx context.Context) error {
	d.announce("alice has a desktop again where she had one, although %s is lost", d.lost)
	_, path, err := d.address(ctx, travels)
	if err != nil {
		return err
	}
	return d.desktop(ctx, travels, path)
}
