package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
)

//go:embed web
var web embed.FS

// page is what every page has.
type page struct {
	Title string
	// User who has logged in; without a name nobody has.
	User login.Identity
	// Live is the page's name for the stream of its changes, empty if it has none.
	Live string
	// Content is the page's own.
	Content any
	// Away is since when the hub's API server does not answer; zero if it does.
	Away time.Time
}

// parseTemplates returns the templates of all pages.
func parseTemplates(now func() time.Time) (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"left":  func(end time.Time) string { return duration(end.Sub(now())) },
		"since": func(at time.Time) string { return duration(now().Sub(at)) },
		"label": func(a messages.Action, d desktop) string { return label(a, d.State) },
		"asset": asset,
		"clock": func(at time.Time) string { return at.UTC().Format("15:04 UTC") },
		"rfc":   func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	}).ParseFS(web, "web/*.html")
}

// pages renders pages.
type pages struct {
	templates *template.Template
	// away returns since when the hub's API server does not answer, zero if it does.
	away func() time.Time
}

// page renders a page.
func (c pages) page(w http.ResponseWriter, code int, name string, p page) error {
	p.Away = c.away()
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, name, p); err != nil {
		return fmt.Errorf("rendering page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the browser may be gone
	return nil
}

// assetVersion changes with the content of the assets, whose addresses have it: browsers keep them forever.
var assetVersion = func() string {
	sum := sha256.New()
	for _, name := range []string{"web/static/style.css", "web/static/console.js", "web/static/viewer.js"} {
		content, err := web.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}()

// asset returns the address of an asset.
func asset(name string) string { return "/static/" + name + "?v=" + assetVersion }

// assets serves the stylesheet and the script.
func assets() http.Handler {
	static, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the name of the directory is valid
	}
	files := http.FileServerFS(static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "v="+assetVersion {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

// label returns what a button says.
func label(a messages.Action, state messages.State) string {
	switch a {
	case messages.Open:
		return "Open"
	case messages.Wake:
		return "Open and wake"
	case messages.Suspend:
		return "Suspend"
	case messages.Extend:
		if state == messages.Ended {
			return "Extend by 1 h and start"
		}
		return "Extend by 1 h"
	case messages.Retry:
		if state == messages.Ended {
			return "Start again"
		}
		return "Try again"
	case messages.End:
		return "End"
	}
	return string(a)
}

// duration returns a length of time for people: its two largest units, at least a minute.
func duration(d time.Duration) string {
	minutes := max(int(d/time.Minute), 0)
	days, hours := minutes/(24*60), minutes/60%24
	minutes %= 60
	var parts []string
	switch {
	case days > 0:
		parts = append(parts, plural(days, "day"))
		if hours > 0 {
			parts = append(parts, fmt.Sprintf("%d h", hours))
		}
	case hours > 0:
		parts = append(parts, fmt.Sprintf("%d h", hours))
		if minutes > 0 {
			parts = append(parts, fmt.Sprintf("%d min", minutes))
		}
	case minutes > 0:
		return fmt.Sprintf("%d min", minutes)
	default:
		return "less than a minute"
	}
	return strings.Join(parts, " ")
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
