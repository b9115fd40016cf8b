package metrics

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// apiServer answers reviews: it authenticates the tokens "prometheus" and "other-user", and
// authorizes the first to get /metrics.
type apiServer struct {
	*httptest.Server
	tokenReviews atomic.Int64
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			s.tokenReviews.Add(1)
			review := &authenticationv1.TokenReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			if slices.Contains([]string{"prometheus", "other-user"}, review.Spec.Token) {
				review.Status = authenticationv1.TokenReviewStatus{
					Authenticated: true, User: authenticationv1.UserInfo{Username: review.Spec.Token},
				}
			}
			answer = review
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			review := &authorizationv1.SubjectAccessReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			attributes := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && attributes != nil && *attributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
			answer = review
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// aMetric is always there.
const aMetric = "certwatcher_read_certificate_total"

// serve runs the metrics server until the test ends, and returns its address.
func serve(t *testing.T, api *apiServer, authentication bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	// As the manager's: with JSON, which the server above understands.
	cfg := &rest.Config{Host: api.URL, QPS: 1000, Burst: 1000, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(Options(address, authentication), cfg, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		select {
		case err := <-ended:
			t.Fatalf("the metrics server ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// get returns the answer's status and body; -1 if there is none.
func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	return do(t, http.MethodGet, url, token)
}

func do(t *testing.T, method, url, token string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return -1, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestOnlyWhoMayGetMetricsReadsThem(t *testing.T) {
	address := serve(t, newAPIServer(t), true)
	for _, test := range []struct {
		what, scheme, token string
		want                int
	}{
		{"an anonymous caller", "https", "", http.StatusUnauthorized},
		{"an invented token", "https", "invented", http.StatusUnauthorized},
		{"a user without the role", "https", "other-user", http.StatusForbidden},
		{"Prometheus", "https", "prometheus", http.StatusOK},
		{"Prometheus by HTTP", "http", "prometheus", http.StatusBadRequest},
	} {
		status, body := get(t, test.scheme+"://"+address+"/metrics", test.token)
		if status != test.want {
			t.Errorf("%s: %d %q, want %d", test.what, status, body, test.want)
		}
		if got := strings.Contains(body, aMetric); got != (test.want == http.StatusOK) {
			t.Errorf("%s reads metrics: %v", test.what, got)
		}
	}
}

// What was allowed is cached, and nothing else with it.
func TestATokenMayDoNoMoreThanWasReviewed(t *testing.T) {
	url := "https://" + serve(t, newAPIServer(t), true) + "/metrics"
	if status, body := get(t, url, "prometheus"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if status, _ := do(t, http.MethodPost, url, "prometheus"); status != http.StatusForbidden {
		t.Errorf("POST: %d", status)
	}
	if status, _ := get(t, url, "other-user"); status != http.StatusForbidden {
		t.Errorf("another token: %d", status)
	}
}

func TestWithoutAuthenticationEverybodyReadsMetrics(t *testing.T) {
	api := newAPIServer(t)
	address := serve(t, api, false)
	if status, body := get(t, "http://"+address+"/metrics", ""); status != http.StatusOK || !strings.Contains(body, aMetric) {
		t.Errorf("%d %q", status, body)
	}
	if n := api.tokenReviews.Load(); n != 0 {
		t.Errorf("%d reviews", n)
	}
}

func TestAPrometheusCostsAReviewNowAndThen(t *testing.T) {
	api := newAPIServer(t)
	address := serve(t, api, true)
	for range 5 {
		if status, body := get(t, "https://"+address+"/metrics", "prometheus"); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	if n := api.tokenReviews.Load(); n != 1 {
		t.Errorf("%d reviews of one token", n)
	}
}

func TestInventedTokensDoNotFloodTheAPIServer(t *testing.T) {
	api := newAPIServer(t)
	address := serve(t, api, true)
	start := time.Now()
	for i := range reviewBurst + 10 {
		if status, body := get(t, "https://"+address+"/metrics", fmt.Sprint("invented-", i)); status != http.StatusUnauthorized {
			t.Fatal(status, body)
		}
	}
	most := int64(reviewBurst + 1 + reviewQPS*time.Since(start).Seconds())
	if n := api.tokenReviews.Load(); n > most || n == 0 {
		t.Errorf("%d reviews in %s, want at most %d", n, time.Since(start), most)
	}
}
