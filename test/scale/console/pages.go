package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// Bounds of single pages: front-door design, acceptance A13.
const (
	firstByte  = 0.050
	pageSize   = 60 << 10
	assetsSize = 40 << 10
	// loads is how often a page is loaded.
	loads = 200
)

// visitor requests pages as a user who has logged in.
type visitor struct {
	base, host string
	cookie     *http.Cookie
	client     *http.Client
}

// visitor returns one of a user.
func (b *bench) visitor(name string, groups ...string) (*visitor, error) {
	identity, err := login.New(name, groups, time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	cookie, err := b.logins.Login(identity)
	if err != nil {
		return nil, err
	}
	// Straight to the console: what stands in for load balancers would cost more than it.
	replica := b.fleet.Console.Replicas[0]
	return &visitor{
		base: "http://" + replica.PagesAddr, host: strings.TrimPrefix(b.fleet.Console.URL, "http://"), cookie: cookie,
		client: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, DisableCompression: true}},
	}, nil
}

// get requests a path, and returns the response with the time until its first byte.
func (v *visitor) get(ctx context.Context, path string) (response *http.Response, first time.Duration, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	r.Host = v.host
	r.AddCookie(v.cookie)
	response, err = v.client.Do(r)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is %s", path, response.Status)
		_ = response.Body.Close()
	}
	return response, first, err
}

// load returns the content of a path, and the time until its first byte.
func (v *visitor) load(ctx context.Context, path string) ([]byte, time.Duration, error) {
	response, first, err := v.get(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return content, first, err
}

var (
	asset   = regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`)
	foreign = regexp.MustCompile(`(?:src|href|action)="(?:https?:)?//`)
)

// pages measures the list of all sessions, and what it loads.
func (b *bench) pages(ctx context.Context) error {
	fmt.Println("\nthe list of all sessions")
	operator, err := b.visitor("oscar@example.com", "operators")
	if err != nil {
		return err
	}
	var times []float64
	var page []byte
	for range loads {
		content, first, err := operator.load(ctx, "/sessions")
		if err != nil {
			return err
		}
		times, page = append(times, first.Seconds()), content
	}
	b.bound("first byte, p95", quantile(times, 0.95), firstByte, "s")
	b.bound("page, compressed", float64(compressed(page)), pageSize, "bytes")
	assets := 0
	for _, found := range asset.FindAllSubmatch(page, -1) {
		content, _, err := operator.load(ctx, strings.ReplaceAll(string(found[1]), "&amp;", "&"))
		if err != nil {
			return err
		}
		assets += len(content)
	}
	b.bound("its assets", float64(assets), assetsSize, "bytes")
	b.bound("addresses of other hosts", float64(len(foreign.FindAll(page, -1))), 0, "")
	return nil
}

func compressed(content []byte) int {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // a buffer accepts all
	_ = w.Close()
	return out.Len()
}

// quantile returns a quantile of values, which it sorts.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

var ends = regexp.MustCompile(`data-end="([^"]+)"`)

// follow keeps a page open, and calls seen with each version that it shows. Once ready is called the page shows all
// that there is.
func (v *visitor) follow(ctx context.Context, page string, ready func(), seen func(version int)) error {
	response, _, err := v.get(ctx, "/events?page="+page)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 8<<20)
	first := true
	for lines.Scan() {
		if first && lines.Text() == "" {
			first = false
			ready()
		}
		for _, found := range ends.FindAllSubmatch(lines.Bytes(), -1) {
			if at, err := time.Parse(time.RFC3339, string(found[1])); err == nil {
				seen(int(at.Sub(epoch) / time.Second))
			}
		}
	}
	if ctx.Err() != nil {
		return nil // it is over
	}
	return fmt.Errorf("page %s has ended: %w", page, lines.Err())
}
