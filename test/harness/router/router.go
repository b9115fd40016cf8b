package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Router forwards requests by their host.
type Router struct {
	address string
	server  *http.Server
	ended   chan struct{}

	mu     sync.Mutex
	routes []Route
	cut    map[string]bool
	next   atomic.Uint64
}

// Route leads from a host to the addresses of processes.
type Route struct {
	// Host without a port, or *.DOMAIN for all hosts of a domain.
	Host string
	// Addresses of the processes, which are used in turn; one that refuses connections is skipped.
	Addresses []string
}

// ParseRoute returns the route of HOST=ADDRESS,ADDRESS.
func ParseRoute(text string) (Route, error) {
	host, addresses, ok := strings.Cut(text, "=")
	if !ok || host == "" || addresses == "" {
		return Route{}, fmt.Errorf("route %q is not of the form HOST=ADDRESS,ADDRESS", text)
	}
	return Route{Host: host, Addresses: strings.Split(addresses, ",")}, nil
}

// String returns the route as ParseRoute reads it.
func (r Route) String() string { return r.Host + "=" + strings.Join(r.Addresses, ",") }

// Start listens at an address, and forwards by routes.
func Start(listen string, routes ...Route) (*Router, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listening for browsers: %w", err)
	}
	r := &Router{address: listener.Addr().String(), routes: routes, cut: map[string]bool{}, ended: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetXForwarded()
			p.Out.URL.Scheme = "http"
			p.Out.URL.Host = p.In.Host
			p.Out.Host = p.In.Host
		},
		Transport:     &http.Transport{DialContext: r.dial, DisableCompression: true, IdleConnTimeout: time.Second},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // responses that a killed process cuts
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		host, _, err := net.SplitHostPort(request.Host)
		if err != nil || len(r.addresses(host)) == 0 {
			http.Error(w, errNoRoute.Error()+": "+request.Host, http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, request)
	})
	r.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(listener)
	}()
	return r, nil
}

// Addr returns the address that the router listens at.
func (r *Router) Addr() string { return r.address }

// Stop ends the router and its connections.
func (r *Router) Stop() error {
	err := r.server.Close()
	<-r.ended
	return err
}

// Cut makes a host unreachable for new requests, or reachable again, as a name that leads nowhere does.
func (r *Router) Cut(host string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[host] = cut
}

// errNoRoute is the error of a host that leads nowhere.
var errNoRoute = errors.New("the router has no route to this host")

// dial connects to a process of a host.
func (r *Router) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses := r.addresses(host)
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: %s", errNoRoute, host)
	}
	first := int(r.next.Add(1) % uint64(len(addresses)))
	var errs []error
	for i := range addresses {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addresses[(first+i)%len(addresses)])
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// addresses returns the addresses of a host, none if it is cut off.
func (r *Router) addresses(host string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut[host] {
		return nil
	}
	i := slices.IndexFunc(r.routes, func(route Route) bool {
		domain, wildcard := strings.CutPrefix(route.Host, "*")
		return route.Host == host || wildcard && strings.HasSuffix(host, domain)
	})
	if i < 0 {
		return nil
	}
	return r.routes[i].Addresses
}
