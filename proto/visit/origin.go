package visit

import (
	"net/http"
	"net/url"
)

// OwnOrigin reports whether a request comes from a page of its own host. Browsers send the origin with each
// WebSocket, and with requests that change something.
func OwnOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && origin.Host == r.Host
}
