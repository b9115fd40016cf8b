package harness

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
)

// scraper is the ServiceAccount that reads metrics, as that of Prometheus does.
const scraper = "metrics-scraper"

// Metrics are those of a replica, as text.
func (h *Hub) Metrics(ctx context.Context, r *Replica) (string, error) {
	return h.ControlPlane.scrape(ctx, r.MetricsAddr)
}

// Metrics are those of the replica of the member's agent that leads, as text.
func (m *Member) Metrics(ctx context.Context) (string, error) {
	return m.MetricsOf(ctx, m.Leading(ctx))
}

// MetricsOf are those of one replica.
func (m *Member) MetricsOf(ctx context.Context, a *Agent) (string, error) {
	return m.ControlPlane.scrape(ctx, a.MetricsAddr)
}

// authorizeScraper binds the role that hub or agent brings for reading metrics.
func (cp *ControlPlane) authorizeScraper(ctx context.Context, role string) error {
	if err := cp.ApplyObject(ctx, object("v1", "ServiceAccount", SystemNamespace, scraper, nil)); err != nil {
		return err
	}
	bound := binding("ClusterRole", "", role, scraper)
	bound.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": SystemNamespace, "name": scraper}}
	return cp.ApplyObject(ctx, bound)
}

// scraperToken is the scraper's, asked for once.
type scraperToken struct {
	mu    sync.Mutex
	value string
}

func (cp *ControlPlane) scraperToken(ctx context.Context) (string, error) {
	cp.scraper.mu.Lock()
	defer cp.scraper.mu.Unlock()
	if cp.scraper.value != "" {
		return cp.scraper.value, nil
	}
	lifetime := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	answer, err := cp.Client.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, scraper, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for the token of %s: %w", scraper, err)
	}
	cp.scraper.value = answer.Status.Token
	return cp.scraper.value, nil
}

// scrapeClient takes any certificate: every process makes its own.
var scrapeClient = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

func (cp *ControlPlane) scrape(ctx context.Context, address string) (string, error) {
	token, err := cp.scraperToken(ctx)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := scrapeClient.Do(request)
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
