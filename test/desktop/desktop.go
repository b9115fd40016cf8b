package main

import (
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"net/http"
	"path/filepath"
	"sync"
	"time"
)

// activityPath is the path of the activity contract.
const activityPath = "/.well-known/vdi/activity"

// user is the user name of a desktop with a password.
const user = "desktop"

//go:embed page.html
var page []byte

// desktop records when it was last used.
type desktop struct {
	now func() time.Time
	mu  sync.Mutex
	// last is the time of the last use, or of the start.
	last time.Time
}

// newDesktop returns a desktop that keeps the user's notes in home, unless that is "".
func newDesktop(password, home string, now func() time.Time) http.Handler {
	d := &desktop{now: now, last: now()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+activityPath, d.activity)
	mux.Handle("GET /{$}", withPassword(password, d.show))
	mux.Handle("POST /activity", withPassword(password, d.report))
	if home != "" {
		n := notes{filepath.Join(home, "notes.txt")}
		mux.Handle("GET /notes", withPassword(password, n.read))
		mux.Handle("PUT /notes", withPassword(password, n.write))
	}
	return mux
}

// withPassword requires the password, if there is one.
func withPassword(password string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, sent, _ := r.BasicAuth()
		if password != "" && (name != user || subtle.ConstantTimeCompare([]byte(sent), []byte(password)) != 1) {
			w.Header().Set("WWW-Authenticate", `Basic realm="desktop"`)
			http.Error(w, "user and password are needed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}

// activity reports how long the desktop has been idle.
func (d *desktop) activity(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	idle := d.now().Sub(d.last)
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]float64{"idleSeconds": max(idle, 0).Seconds()}) // the client may be gone
}

// show serves the page: opening it counts as use.
func (d *desktop) show(w http.ResponseWriter, _ *http.Request) {
	d.use()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page)
}

// report handles what the page sends when a key is pressed or the pointer moves.
func (d *desktop) report(w http.ResponseWriter, _ *http.Request) {
	d.use()
	w.WriteHeader(http.StatusNoContent)
}

func (d *desktop) use() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = d.now()
}
