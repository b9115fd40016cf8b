package browser

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// Size of the browser's window.
const (
	width  = 1280
	height = 800
)

// pollInterval is how often a page that is waited for is read.
const pollInterval = 200 * time.Millisecond

// actionTimeout of the browser and the page allows for a busy machine.
const actionTimeout = 2 * time.Minute

// ErrNoBrowser means that there is no Chromium on this machine.
var ErrNoBrowser = errors.New("no chromium on this machine: install Debian's package of that name")

// Desktop is one page of one browser, from its login on.
type Desktop struct {
	ctx context.Context
	end []context.CancelFunc
}

// Open starts a browser, and opens the URL in it. The keys of resolve are hosts that the browser
// resolves to the values, an address or address:port, instead of by DNS; `*` at the beginning of a
// key matches anything. Certificates are not checked: those of a test's gateways are self-signed.
// The browser ends with ctx, or by Close.
func Open(ctx context.Context, url string, resolve map[string]string) (*Desktop, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, ErrNoBrowser
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.WindowSize(width, height),
		chromedp.IgnoreCertErrors,
		chromedp.DisableGPU,
		// Its sandbox needs privileges that root in a container does not have.
		chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", rules(resolve)),
		chromedp.WSURLReadTimeout(actionTimeout),
	)
	d := &Desktop{}
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	d.end = append(d.end, end)
	d.ctx, end = chromedp.NewContext(allocator)
	d.end = append(d.end, end)
	// The first run starts the browser, which ends with the context of that run.
	if err := chromedp.Do(d.ctx); err != nil {
		d.Close()
		return nil, fmt.Errorf("starting chromium: %w", err)
	}
	if err := d.Go(url); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// rules returns the rules for Chromium's own resolver.
func rules(resolve map[string]string) string {
	var all []string
	for _, host := range slices.Sorted(maps.Keys(resolve)) {
		all = append(all, "MAP "+host+" "+resolve[host])
	}
	return strings.Join(all, ", ")
}

// Close ends the browser.
func (d *Desktop) Close() {
	for _, end := range slices.Backward(d.end) {
		end()
	}
}

// do runs the steps of a user, within actionTimeout.
func (d *Desktop) do(what string, steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Go opens another URL in the same browser. It returns an error for an error response, such as
// that of a gateway without that host.
func (d *Desktop) Go(url string) error {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	response, err := chromedp.Run(ctx, chromedp.NavigateResponse(url))
	if err != nil {
		return fmt.Errorf("opening %s: %w", url, err)
	}
	if response != nil && response.Status >= 400 {
		return fmt.Errorf("opening %s: the answer is %d %s", url, response.Status, response.StatusText)
	}
	return nil
}

// Login enters the session's password, and returns once the desktop is connected.
func (d *Desktop) Login(password string) error {
	if err := d.enter(password); err != nil {
		return err
	}
	return d.do("waiting for the desktop", connected())
}

// Refused enters a password, and returns the page's error.
func (d *Desktop) Refused(password string) (string, error) {
	if err := d.enter(password); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Text(chromedp.CSS(`[role=alert]`)))
}

func (d *Desktop) enter(password string) error {
	field := chromedp.ID("password")
	return d.do("logging in",
		chromedp.WaitVisible(field),
		chromedp.SendKeys(field, password),
		chromedp.Submit(field),
	)
}

// connected waits until noVNC reports a connection, and has a canvas. A page that is being
// replaced can't be read, and is read again.
func connected() chromedp.Action[chromedp.Void] {
	const is = `document.documentElement.classList.contains("noVNC_connected") && !!document.querySelector("#noVNC_container canvas")`
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			if yes, err := chromedp.Evaluate[bool](is)(ctx, t); err == nil && yes {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
}

// Type types on the desktop's keyboard, into whatever has the focus. A line ends with \n.
func (d *Desktop) Type(text string) error {
	// xterm requires the key Return, which is \r here.
	return d.do("typing", connected(), focus(), chromedp.KeyEvent(strings.ReplaceAll(text, "\n", "\r")))
}

// Paint returns what to type into a terminal so that its background gets a color if a shell's
// condition holds. The color is then Picture.Most: the canvas shows the condition.
func Paint(condition, color string) string {
	return condition + ` && printf '\033]11;` + color + `\007'` + "\n"
}

// focus focuses the canvas without a click, which would reach the desktop as well.
func focus() chromedp.Action[chromedp.Void] {
	return chromedp.Focus(chromedp.CSS("#noVNC_container canvas"))
}

// Screenshot writes what the browser's window shows to a PNG file.
func (d *Desktop) Screenshot(path string) error {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return fmt.Errorf("taking a screenshot: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, picture, 0o644)
}
