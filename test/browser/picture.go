package browser

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
)

// Picture describes the desktop's canvas in figures.
type Picture struct {
	// Width and Height are in pixels.
	Width, Height int
	// Colors is the number of different colors.
	Colors int
	// Most is the most frequent color, as #rrggbb, and Common the share of the pixels
	// that have it, 0 to 1.
	Most   string
	Common float64
	// Sum is a hash of the pixels.
	Sum string
}

// Blank reports whether no desktop is visible: hardly a pixel differs from the background. A
// terminal's title and prompt have more colors than that, since their letters are smoothed.
func (p Picture) Blank() bool {
	const fewestColors, mostCommon = 8, 0.999
	return p.Width == 0 || p.Height == 0 || p.Colors < fewestColors || p.Common > mostCommon
}

func (p Picture) String() string {
	return fmt.Sprintf("%dx%d, %d colors, %.1f%% %s", p.Width, p.Height, p.Colors, 100*p.Common, p.Most)
}

// readCanvas counts colors, and sums the pixels up (FNV-1a over the pixels).
const readCanvas = `(() => {
	const canvas = document.querySelector("#noVNC_container canvas");
	if (!canvas || !canvas.width || !canvas.height) return {Width: 0, Height: 0, Colors: 0, Most: "", Common: 0, Sum: ""};
	const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
	const counts = new Map();
	let sum = 0x811c9dc5;
	for (const p of pixels) {
		counts.set(p, (counts.get(p) || 0) + 1);
		sum = Math.imul(sum ^ p, 0x01000193) >>> 0;
	}
	const [most, times] = [...counts].reduce((a, b) => b[1] > a[1] ? b : a);
	const color = "#" + [most, most >>> 8, most >>> 16].map(c => (c & 255).toString(16).padStart(2, "0")).join("");
	return {Width: canvas.width, Height: canvas.height, Colors: counts.size, Most: color, Common: times / pixels.length, Sum: sum.toString(16)};
})()`

// Picture reads the canvas.
func (d *Desktop) Picture() (Picture, error) {
	ctx, cancel := context.WithTimeout(d.ctx, actionTimeout)
	defer cancel()
	p, err := chromedp.Run(ctx, chromedp.Evaluate[Picture](readCanvas))
	if err != nil {
		return p, fmt.Errorf("reading the canvas: %w", err)
	}
	return p, nil
}

// Blank reports whether the canvas shows no desktop.
func (d *Desktop) Blank() (bool, error) {
	p, err := d.Picture()
	return p.Blank(), err
}

// Await reads the canvas until good reports true, and returns the last picture in any case.
func (d *Desktop) Await(ctx context.Context, what string, good func(Picture) bool) (Picture, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		p, err := d.Picture()
		if err == nil && good(p) {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("waiting for %s, the canvas is %v: %w", what, p, ctx.Err())
		case <-tick.C:
		}
	}
}
