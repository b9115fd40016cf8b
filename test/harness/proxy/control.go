package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ServeControl serves the control endpoint of a proxy that runs as a process
// of its own, until ctx ends. Remote is its client.
func ServeControl(ctx context.Context, address string, proxy *Proxy) error {
	mux := http.NewServeMux()
	handle := func(path string, do func(query url.Values) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.URL.Query()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	handle("/cut", func(query url.Values) error { return proxy.Cut(CutMode(query.Get("mode"))) })
	handle("/heal", func(url.Values) error { return proxy.Heal() })
	handle("/drop", func(url.Values) error { return proxy.DropConnections() })
	handle("/slow", func(query url.Values) error {
		latency, err := time.ParseDuration(query.Get("latency"))
		if err != nil {
			return fmt.Errorf("reading latency: %w", err)
		}
		rate, err := strconv.Atoi(query.Get("rate"))
		if err != nil {
			return fmt.Errorf("reading rate: %w", err)
		}
		return proxy.Slow(latency, rate)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		status, _ := proxy.Status()
		_ = json.NewEncoder(w).Encode(status)
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving proxy control: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serving proxy control: %w", err)
	}
	return nil
}

// Remote is the Link of a proxy in another process.
type Remote struct {
	// Control is the address of its control endpoint.
	Control string
}

var _ Link = Remote{}

// Cut implements Link.
func (r Remote) Cut(mode CutMode) error {
	return r.post("/cut", url.Values{"mode": {string(mode)}})
}

// Slow implements Link.
func (r Remote) Slow(latency time.Duration, bytesPerSecond int) error {
	return r.post("/slow", url.Values{"latency": {latency.String()}, "rate": {strconv.Itoa(bytesPerSecond)}})
}

// Heal implements Link.
func (r Remote) Heal() error { return r.post("/heal", nil) }

// DropConnections implements Link.
func (r Remote) DropConnections() error { return r.post("/drop", nil) }

// Status implements Link.
func (r Remote) Status() (Status, error) {
	var status Status
	response, err := controlClient.Get("http://" + r.Control + "/status")
	if err != nil {
		return status, fmt.Errorf("requesting status of proxy: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return status, fmt.Errorf("requesting status of proxy: %w", err)
	}
	return status, nil
}

var controlClient = &http.Client{Timeout: 5 * time.Second}

func (r Remote) post(path string, query url.Values) error {
	response, err := controlClient.Post("http://"+r.Control+path+"?"+query.Encode(), "", nil)
	if err != nil {
		return fmt.Errorf("sending to proxy: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(response.Body)
		return fmt.Errorf("sending to proxy: %s", strings.TrimSpace(string(message)))
	}
	return nil
}
