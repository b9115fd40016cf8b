package activity

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// maxBody and maxHeader limit the bytes of an answer that are read.
	maxBody   = 4 << 10
	maxHeader = 16 << 10
	// maxIdle caps an answer, so that no sum with it overflows.
	maxIdle = 10 * 365 * 24 * time.Hour
)

// URL returns the activity URL of a desktop, at its Pod's address, and false if it has no
// activity path or no address yet.
func URL(a *api.SessionAssignment, pod *corev1.Pod) (string, bool) {
	desktop := &a.Spec.Desktop
	if desktop.Activity.Path == "" || pod == nil {
		return "", false
	}
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || address.Zone() != "" {
		return "", false
	}
	u := url.URL{
		Scheme: "http",
		Host:   net.JoinHostPort(address.String(), strconv.Itoa(int(desktop.Port))),
		Path:   desktop.Activity.Path,
	}
	if desktop.Protocol == api.ProtocolHTTPS {
		u.Scheme = "https"
	}
	return u.String(), true
}

// newClient returns the HTTP client of all probes. Each has a connection of its own: they
// are minutes apart.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		// A desktop must not redirect its agent.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			// A Pod is only reached directly.
			Proxy:                  nil,
			DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
			// A desktop's certificate is for its public name or self-signed, never for
			// a Pod's address. No secret is sent, and an attacker in between could only
			// forge an answer, which the desktop can do as well.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}
}

// answer is the body of a desktop's answer.
type answer struct {
	IdleSeconds *float64 `json:"idleSeconds"`
}

// fetchIdle requests from a desktop how long it was idle.
func fetchIdle(ctx context.Context, client *http.Client, url string) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("making the request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("requesting the desktop's activity: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the desktop answers %q", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	return parse(body)
}

// parse reads the body of an answer.
func parse(body []byte) (time.Duration, error) {
	if len(body) > maxBody {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	var got answer
	switch err := json.Unmarshal(body, &got); {
	case err != nil:
		return 0, fmt.Errorf("reading the answer: %w", err)
	case got.IdleSeconds == nil:
		return 0, errors.New("the answer has no idleSeconds")
	case *got.IdleSeconds < 0:
		return 0, fmt.Errorf("idleSeconds is %v, less than zero", *got.IdleSeconds)
	}
	return time.Duration(min(*got.IdleSeconds, maxIdle.Seconds()) * float64(time.Second)), nil
}
