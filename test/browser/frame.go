package browser

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// Enter logs a user into the console, whose page the browser shows.
func (d *Desktop) Enter(name, password string) error {
	return d.do("logging in to the console",
		chromedp.WaitVisible(chromedp.CSS(`input[name=name]`)),
		chromedp.SendKeys(chromedp.CSS(`input[name=name]`), name),
		chromedp.SendKeys(chromedp.CSS(`input[name=password]`), password),
		chromedp.Submit(chromedp.CSS(`input[name=password]`)),
		chromedp.WaitVisible(chromedp.CSS(`#logout`)))
}

// Click clicks what a selector finds, once it is visible.
func (d *Desktop) Click(selector string) error {
	return d.do("clicking "+selector, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// Address returns the address of the page.
func (d *Desktop) Address() (string, error) {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[string](`location.href`))
}

// rectangle is where the page shows the frame with the desktop, in pixels of the window; empty if it shows none.
type rectangle struct{ Left, Top, Right, Bottom float64 }

const readFrame = `(() => {
	const frame = document.getElementById("frame");
	if (!frame || frame.closest("[hidden]")) return {Left: 0, Top: 0, Right: 0, Bottom: 0};
	frame.scrollIntoView({block: "end"});
	const at = frame.getBoundingClientRect();
	return {Left: Math.max(at.left, 0), Top: Math.max(at.top, 0), Right: Math.min(at.right, innerWidth), Bottom: Math.min(at.bottom, innerHeight)};
})()`

func (d *Desktop) frame() (rectangle, error) {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[rectangle](readFrame))
}

// TypeIntoFrame types on the keyboard of the desktop in the page's frame, which gets the focus by a click.
func (d *Desktop) TypeIntoFrame(text string) error {
	at, err := d.frame()
	if err != nil {
		return err
	}
	return d.do("typing into the frame", chromedp.MouseClickXY((at.Left+at.Right)/2, (at.Top+at.Bottom)/2),
		chromedp.KeyEvent(strings.ReplaceAll(text, "\n", "\r")))
}

// Framed returns what the window shows in the frame, as a person sees it.
func (d *Desktop) Framed() (Picture, error) {
	at, err := d.frame()
	if err != nil || at.Right <= at.Left {
		return Picture{}, err
	}
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return Picture{}, fmt.Errorf("taking a screenshot: %w", err)
	}
	window, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return Picture{}, fmt.Errorf("reading the screenshot: %w", err)
	}
	return pictureOf(window, image.Rect(int(at.Left)+1, int(at.Top)+1, int(at.Right)-1, int(at.Bottom)-1)), nil
}

// pictureOf returns the picture of a part of an image.
func pictureOf(of image.Image, part image.Rectangle) Picture {
	part = part.Intersect(of.Bounds())
	counts := map[[3]byte]int{}
	sum := uint32(0x811c9dc5) // FNV-1a
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			r, g, b, _ := of.At(x, y).RGBA()
			color := [3]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8)}
			counts[color]++
			for _, c := range color {
				sum = (sum ^ uint32(c)) * 0x01000193
			}
		}
	}
	p := Picture{Width: part.Dx(), Height: part.Dy(), Colors: len(counts), Sum: fmt.Sprintf("%x", sum)}
	most := 0
	for color, n := range counts {
		if n > most {
			most, p.Most = n, fmt.Sprintf("#%02x%02x%02x", color[0], color[1], color[2])
		}
	}
	if all := part.Dx() * part.Dy(); all > 0 {
		p.Common = float64(most) / float64(all)
	}
	return p
}

// AwaitFramed reads what the frame shows until good reports true, and returns the last picture in any case.
func (d *Desktop) AwaitFramed(ctx context.Context, what string, good func(Picture) bool) (Picture, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		p, err := d.Framed()
		if err == nil && good(p) {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("waiting for %s, the frame is %v: %w", what, p, ctx.Err())
		case <-tick.C:
		}
	}
}
