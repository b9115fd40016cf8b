package visit

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"net/http"

	"golang.org/x/net/websocket"
)

// The paths of a door on a desktop's host. No desktop is served below Prefix.
const (
	Prefix = "/.well-known/vdi/door/"
	// HelloPath is the hello page.
	HelloPath = Prefix + "hello"
	// CheckPath returns the challenge of the nonce that the browser returned, "" if it returned none.
	CheckPath = Prefix + "check"
	// EchoPath is a WebSocket that sends back what it receives.
	EchoPath = Prefix + "echo"
	// EnterPath accepts a pass.
	EnterPath = Prefix + "enter"
)

//go:embed hello.js
var helloScript string

// helloHash is the hash of the script for the page's Content-Security-Policy.
var helloHash = func() string {
	sum := sha256.Sum256([]byte(helloScript))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

var helloPage = template.Must(template.New("hello").Parse(`<!doctype html>
<html lang="en" data-console="{{.Console}}"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Opening the desktop</title></head>
<body><p>Opening the desktop …</p><script>{{.Script}}</script></body></html>
`))

// Hello serves the paths of a door but EnterPath, for a console.
func Hello(consoleOrigin string, cookies Cookies) http.Handler {
	var page bytes.Buffer
	if err := helloPage.Execute(&page, struct {
		Console string
		Script  template.JS
	}{consoleOrigin, template.JS(helloScript)}); err != nil { //nolint:gosec // our own script
		panic(err) // the template is ours
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HelloPath, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src "+helloHash+"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "+consoleOrigin)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		http.SetCookie(w, cookies.NewNonce())
		_, _ = w.Write(page.Bytes()) // the browser may be gone
	})
	mux.HandleFunc("GET "+CheckPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		challenge := ""
		if nonce := Value(r, NonceCookie); nonce != "" {
			challenge = Challenge(nonce)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": challenge})
	})
	mux.Handle("GET "+EchoPath, websocket.Server{
		Handshake: ownOrigin,
		Handler: func(conn *websocket.Conn) {
			conn.MaxPayloadBytes = 128
			_, _ = io.CopyN(conn, conn, 64)
		},
	})
	return mux
}

// ownOrigin refuses WebSockets of pages of other hosts.
func ownOrigin(_ *websocket.Config, r *http.Request) error {
	if !OwnOrigin(r) {
		return ErrInvalid
	}
	return nil
}
