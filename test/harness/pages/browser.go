package pages

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// Browser has the cookies of one user. It is safe for concurrent use.
type Browser struct {
	origin string
	client http.Client

	mu sync.Mutex
	// cookies are those of each host, by their names.
	cookies map[string]map[string]string
}

// New returns a browser for the console at an address such as http://vdi.localhost:8088.
func New(origin string) (*Browser, error) {
	address, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	b := &Browser{origin: origin, cookies: map[string]map[string]string{}}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.client.Transport = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		// As browsers resolve names of localhost.
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", address.Port()))
	}}
	return b, nil
}

// Close closes the connections that are kept for other requests.
func (b *Browser) Close() { b.client.CloseIdleConnections() }

// Page is a response.
type Page struct {
	Status         int
	Location, Body string
}

// Value returns the value of an input of a form in the page.
func (p Page) Value(name string) (string, error) {
	found := regexp.MustCompile(`name="` + regexp.QuoteMeta(name) + `" value="([^"]*)"`).FindStringSubmatch(p.Body)
	if found == nil {
		return "", fmt.Errorf("the page, of status %d, has no input %s: %s", p.Status, name, p.Body)
	}
	return found[1], nil
}

// Get opens a path, as a person does.
func (b *Browser) Get(ctx context.Context, path string) (Page, error) {
	return b.page(ctx, http.MethodGet, path, nil)
}

// Post submits a form of a page.
func (b *Browser) Post(ctx context.Context, path string, form url.Values) (Page, error) {
	return b.page(ctx, http.MethodPost, path, form)
}

// Login logs in one of the users of a fleet, whose password is the name.
func (b *Browser) Login(ctx context.Context, name string) error {
	p, err := b.Post(ctx, "/login", url.Values{"name": {name}, "password": {name}})
	if err == nil && p.Status != http.StatusSeeOther {
		err = fmt.Errorf("%s can't log in: %d %s", name, p.Status, p.Body)
	}
	return err
}

// Events receives the changes of an open page until one of them has a text, or the stream ends.
func (b *Browser) Events(ctx context.Context, page, until string) error {
	response, err := b.do(ctx, http.MethodGet, b.origin+"/events?"+url.Values{"page": {page}}.Encode(), "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the changes of %s are refused: %s", page, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), until) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (b *Browser) page(ctx context.Context, method, path string, form url.Values) (Page, error) {
	return b.read(b.do(ctx, method, b.origin+path, form.Encode()))
}

// read returns the page of a response.
func (b *Browser) read(response *http.Response, err error) (Page, error) {
	if err != nil {
		return Page{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Page{response.StatusCode, response.Header.Get("Location"), string(body)}, err
}

// do sends a request as a page of the same origin does.
func (b *Browser) do(ctx context.Context, method, address, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodGet {
		r.Header.Set("Sec-Fetch-Dest", "document")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
	} else {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
	}
	b.mu.Lock()
	for name, value := range b.cookies[r.URL.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	b.mu.Unlock()
	response, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range response.Cookies() {
		if b.cookies[r.URL.Host] == nil {
			b.cookies[r.URL.Host] = map[string]string{}
		}
		b.cookies[r.URL.Host][c.Name] = c.Value
	}
	return response, nil
}
