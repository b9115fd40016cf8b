package scrape

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

// serviceAccount reads metrics, as that of Prometheus does.
const serviceAccount = "metrics-scraper"

// Scraper reads the metrics of the programs in one cluster.
type Scraper struct {
	admin     *apply.Applier
	namespace string

	mu    sync.Mutex
	token string
}

// New returns a Scraper whose ServiceAccount is in the namespace.
func New(admin *apply.Applier, namespace string) *Scraper {
	return &Scraper{admin: admin, namespace: namespace}
}

// Authorize binds the role that the chart of hub or agent has for reading metrics.
func (s *Scraper) Authorize(ctx context.Context, role string) error {
	if err := s.admin.ApplyObject(ctx, apply.Object("v1", "ServiceAccount", s.namespace, serviceAccount, nil)); err != nil {
		return err
	}
	bound := apply.Binding("ClusterRole", "", role, serviceAccount)
	bound.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": s.namespace, "name": serviceAccount}}
	return s.admin.ApplyObject(ctx, bound)
}

// bearer returns the token of the ServiceAccount, which is requested once.
func (s *Scraper) bearer(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" {
		return s.token, nil
	}
	lifetime := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	answer, err := s.admin.Client.CoreV1().ServiceAccounts(s.namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting the token of %s: %w", serviceAccount, err)
	}
	s.token = answer.Status.Token
	return s.token, nil
}

// httpClient accepts any certificate: every process issues its own.
var httpClient = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// Scrape returns the metrics at the address, as text.
func (s *Scraper) Scrape(ctx context.Context, address string) (string, error) {
	token, err := s.bearer(ctx)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := httpClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/metrics of %s: %s: %.200s", address, response.Status, body)
	}
	return string(body), err
}
