package app

import (
	"bytes"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/websocket"
)

// ActivityPath is the path of the activity contract.
const ActivityPath = "/.well-known/vdi/activity"

// DefaultUsername is the user name of a desktop with a password.
const DefaultUsername = "desktop"

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// Options of a desktop.
type Options struct {
	// Title of its page, such as where it runs.
	Title string
	// Username, by default DefaultUsername, and Password that it requires; without a password all users are admitted.
	Username, Password string
	// Home keeps the user's notes, unless it is "".
	Home string
	// Now is the time; by default that of this machine.
	Now func() time.Time
}

// desktop records when it was last used, and counts keys.
type desktop struct {
	Options
	mu sync.Mutex
	// last is the time of the last use, or of the start.
	last time.Time
	keys int
}

// New returns a desktop.
func New(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Username == "" {
		o.Username = DefaultUsername
	}
	d := &desktop{Options: o, last: o.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ActivityPath, d.activity)
	mux.Handle("GET /{$}", d.withPassword(http.HandlerFunc(d.show)))
	mux.Handle("POST /activity", d.withPassword(http.HandlerFunc(d.report)))
	mux.Handle("GET /keys", d.withPassword(websocket.Handler(d.count)))
	if o.Home != "" {
		n := notes{filepath.Join(o.Home, "notes.txt")}
		mux.Handle("GET /notes", d.withPassword(http.HandlerFunc(n.read)))
		mux.Handle("PUT /notes", d.withPassword(http.HandlerFunc(n.write)))
	}
	return mux
}

// withPassword requires the password, if there is one.
func (d *desktop) withPassword(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, sent, _ := r.BasicAuth()
		if d.Password != "" && (name != d.Username || subtle.ConstantTimeCompare([]byte(sent), []byte(d.Password)) != 1) {
			w.Header().Set("WWW-Authenticate", `Basic realm="desktop"`)
			http.Error(w, "user and password are needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// activity reports how long the desktop has been idle.
func (d *desktop) activity(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	idle := d.Now().Sub(d.last)
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]float64{"idleSeconds": max(idle, 0).Seconds()}) // the client may be gone
}

// show serves the page: opening it counts as use.
func (d *desktop) show(w http.ResponseWriter, _ *http.Request) {
	d.use()
	var b bytes.Buffer
	if err := page.Execute(&b, d.Title); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// report handles what the page sends when a key is pressed or the pointer moves.
func (d *desktop) report(w http.ResponseWriter, _ *http.Request) {
	d.use()
	w.WriteHeader(http.StatusNoContent)
}

// count counts the keys that the page sends, as a desktop would receive them, and answers each with their number.
func (d *desktop) count(conn *websocket.Conn) {
	for {
		var key string
		if err := websocket.Message.Receive(conn, &key); err != nil {
			return
		}
		d.use()
		d.mu.Lock()
		d.keys++
		n := d.keys
		d.mu.Unlock()
		if err := websocket.Message.Send(conn, strconv.Itoa(n)); err != nil {
			return
		}
	}
}

func (d *desktop) use() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = d.Now()
}
