package chart

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Chart of lines over one pair of axes.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Axis of a chart.
type Axis struct {
	Title string
	// Low and High are its ends, Ticks the values that are marked; Mark formats them.
	Low, High float64
	Ticks     []float64
	Mark      func(float64) string
	// Log scales it by logarithm; Low must then be positive.
	Log bool
}

// Series is one line.
type Series struct {
	Name   string
	Points []Point
}

// Point of a line.
type Point struct{ X, Y float64 }

// Size of the image and its margins, in pixels.
const (
	width, height            = 960, 480
	left, right, top, bottom = 70, 150, 40, 55
)

// colors can be distinguished with red-green color blindness (Okabe and Ito).
var colors = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}

// Write writes the chart as SVG.
func (c *Chart) Write(to io.Writer) error {
	w := bufio.NewWriter(to)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) } // Flush returns the error
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height)
	p(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	p(`<text x="%d" y="24" font-size="16">%s</text>`, left, html.EscapeString(c.Title))
	for _, tick := range c.X.Ticks {
		x := c.x(tick)
		p(`<path d="M%.1f %d V%d" stroke="#ddd"/>`, x, top, height-bottom)
		p(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, height-bottom+18, html.EscapeString(c.X.Mark(tick)))
	}
	for _, tick := range c.Y.Ticks {
		y := c.y(tick)
		p(`<path d="M%d %.1f H%d" stroke="#ddd"/>`, left, y, width-right)
		p(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, left-8, y+4, html.EscapeString(c.Y.Mark(tick)))
	}
	p(`<path d="M%d %d V%d H%d" fill="none" stroke="black"/>`, left, top, height-bottom, width-right)
	p(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width-right)/2, height-14, html.EscapeString(c.X.Title))
	p(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`, (top+height-bottom)/2, html.EscapeString(c.Y.Title))
	for i, s := range c.Series {
		color := colors[i%len(colors)]
		p(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, c.path(s.Points), color)
		y := top + 20*(i+1)
		p(`<path d="M%d %d h24" stroke="%s" stroke-width="3"/>`, width-right+14, y-4, color)
		p(`<text x="%d" y="%d">%s</text>`, width-right+44, y, html.EscapeString(s.Name))
	}
	p(`</svg>`)
	return w.Flush()
}

func (c *Chart) path(points []Point) string {
	var b strings.Builder
	for i, point := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, c.x(point.X), c.y(point.Y))
	}
	return b.String()
}

func (c *Chart) x(v float64) float64 { return left + c.X.part(v)*(width-left-right) }
func (c *Chart) y(v float64) float64 {
	return height - bottom - c.Y.part(v)*(height-top-bottom)
}

// part returns the position of a value on the axis, from 0 to 1.
func (a *Axis) part(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, low))
	}
	if high == low {
		return 0
	}
	return min(max((v-low)/(high-low), 0), 1)
}
