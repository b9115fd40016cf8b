package metrics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// Rate limit of the reviews of callers, for invalid tokens: a Prometheus needs two
	// reviews a minute.
	reviewQPS   = 5
	reviewBurst = 20
	// reviewTimeout is how long a request waits for its reviews.
	reviewTimeout = 10 * time.Second
	// allowedFor is how long a token that was allowed needs no review.
	allowedFor = time.Minute
	// maxAllowed is how many allowed requests are cached.
	maxAllowed = 128
)

// reviewer asks the API server who a caller is, and whether it may do what it requests.
// controller-runtime's filter does the same with the libraries of the API server, which
// take 9 MiB more of each process (docs/performance.md).
type reviewer struct {
	tokens  authenticationclient.TokenReviewInterface
	access  authorizationclient.SubjectAccessReviewInterface
	allowed *cache.LRUExpireCache
}

// request that is reviewed; only a hash of the token is kept.
type request struct {
	token        [sha256.Size]byte
	verb, target string
}

func filter(cfg *rest.Config, httpClient *http.Client) (server.Filter, error) {
	// The manager's own requests must not wait for those about its callers.
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter, cfg.QPS, cfg.Burst = nil, reviewQPS, reviewBurst
	authentication, err := authenticationclient.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("preparing the authentication of metrics: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("preparing the authorization of metrics: %w", err)
	}
	r := &reviewer{
		tokens: authentication.TokenReviews(), access: authorization.SubjectAccessReviews(),
		allowed: cache.NewLRUExpireCache(maxAllowed),
	}
	return r.wrap, nil
}

// wrap passes requests on that are allowed.
func (r *reviewer) wrap(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		code, err := r.review(req)
		if err != nil {
			log.Error(err, "Reviewing a request for metrics")
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, req)
	}), nil
}

// review returns StatusOK for a request that is allowed, else the status to answer with.
func (r *reviewer) review(req *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := request{token: sha256.Sum256([]byte(token)), verb: strings.ToLower(req.Method), target: req.URL.Path}
	if _, ok := r.allowed.Get(key); ok {
		return http.StatusOK, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	user, err := r.authenticate(ctx, token)
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case user == nil:
		return http.StatusUnauthorized, nil
	}
	may, err := r.authorize(ctx, user, key)
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case !may:
		return http.StatusForbidden, nil
	}
	r.allowed.Add(key, nil, allowedFor)
	return http.StatusOK, nil
}

// authenticate returns the user with a token, or nil if the API server does not know it.
func (r *reviewer) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, nil
	}
	return &review.Status.User, nil
}

func (r *reviewer) authorize(ctx context.Context, user *authenticationv1.UserInfo, what request) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: what.target, Verb: what.verb},
	}}
	review, err := r.access.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}
