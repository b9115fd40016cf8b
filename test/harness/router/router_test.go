package router

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// get returns the status and body of a request for a host at a router.
func get(t *testing.T, address, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func TestRequestsGoToTheProcessesOfTheirHost(t *testing.T) {
	named := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, " ", r.Host) }))
		t.Cleanup(s.Close)
		return s
	}
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	one, two, door := named("one"), named("two"), named("door")
	route, err := ParseRoute("vdi.localhost=" + address(one) + "," + address(two))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Start("127.0.0.1:0", route, Route{Host: "*.eu-west.vdi.localhost", Addresses: []string{address(door)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Stop() }()
	at := r.Addr()
	if code, body := get(t, at, "a.eu-west.vdi.localhost:8088"); code != http.StatusOK || body != "door a.eu-west.vdi.localhost:8088" {
		t.Errorf("a desktop: %d %s", code, body)
	}
	if code, _ := get(t, at, "a.us-east.vdi.localhost:8088"); code != http.StatusBadGateway {
		t.Errorf("a host without a route: %d", code)
	}
	one.Close()
	for range 3 {
		if code, body := get(t, at, "vdi.localhost:8088"); code != http.StatusOK || !strings.HasPrefix(body, "two") {
			t.Errorf("with one process that has ended: %d %s", code, body)
		}
	}
	r.Cut("vdi.localhost", true)
	if code, _ := get(t, at, "vdi.localhost:8088"); code != http.StatusBadGateway {
		t.Errorf("a host that is cut off: %d", code)
	}
	r.Cut("vdi.localhost", false)
	if code, _ := get(t, at, "vdi.localhost:8088"); code != http.StatusOK {
		t.Errorf("a host that is back: %d", code)
	}
}
