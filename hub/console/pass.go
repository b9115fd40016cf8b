package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
	"github.com/vdi-fleet/vdi-fleet/hub/console/reach"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// passes are what desktops behind doors are opened with.
type passes struct {
	// sign returns a signed pass.
	sign func(visit.Pass) (string, error)
	// recorder of events on sessions that are opened by others than their users.
	recorder events.EventRecorder
	prober   *reach.Prober
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// errMalformed is the error of a request that no page of the console sends.
var errMalformed = errors.New("the request is malformed")

// mayOpen reports whether a user may open the desktop of a session that the user may see.
func (c *reader) mayOpen(ctx context.Context, s *v1alpha1.VDISession, user login.Identity) (bool, error) {
	if s.Spec.User == user.Name {
		return true, nil
	}
	return c.authorizer.May(ctx, as(user), impersonation.Request{
		Verb: "get", Resource: "vdisessions", Subresource: "desktop", Namespace: s.Namespace, Name: s.Name,
	})
}

// pass handles POST /s/{namespace}/{name}/pass: a pass for the browser whose challenge the desktop's host has.
func (c *console) pass(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	key := sessionKey(r)
	done := c.audit(r, user, "pass", key)
	token, err := c.issue(r.Context(), key, r.PostFormValue("origin"), r.PostFormValue("challenge"), user)
	done(err)
	if err != nil {
		return c.explain(w, r, err)
	}
	return reply(w, map[string]string{"pass": token})
}

// issue returns a pass for the desktop of a session at an origin, to which alone the page sends it.
func (c *console) issue(ctx context.Context, key types.NamespacedName, origin, challenge string, user login.Identity) (string, error) {
	if hash, err := base64.RawURLEncoding.DecodeString(challenge); err != nil || len(hash) != 32 {
		return "", errMalformed
	}
	s, err := c.session(ctx, key, user)
	if err != nil {
		return "", err
	}
	may, err := c.mayOpen(ctx, s, user)
	switch {
	case err != nil:
		return "", err
	case !may:
		return "", errNotFound
	}
	door, err := c.doorOf(ctx, s)
	switch {
	case err != nil:
		return "", err
	case door == "" || door != origin || messages.StateOf(s) != messages.Running:
		return "", errOutdated // the page follows
	}
	token, err := c.passes.sign(visit.Pass{
		SessionUID: string(s.UID), Epoch: s.Status.Placement.Epoch, User: user.Name, Challenge: challenge,
		IssuedAt: time.Now().Unix(), Expires: user.Expires,
	})
	if err == nil && s.Spec.User != user.Name {
		c.passes.recorder.Eventf(s, nil, corev1.EventTypeNormal, v1alpha1.EventVisited, "Open", "%s opened the desktop of %s.", user.Name, s.Spec.User)
	}
	return token, err
}

// reach handles POST /s/{namespace}/{name}/reach: why a browser does not reach the desktop's host.
func (c *console) reach(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	s, err := c.session(r.Context(), sessionKey(r), user)
	if err != nil {
		return c.explain(w, r, err)
	}
	door, err := c.doorOf(r.Context(), s)
	if err != nil || door == "" {
		return c.explain(w, r, errors.Join(errOutdated, err))
	}
	host := door
	if u, err := url.Parse(door); err == nil {
		host = u.Host
	}
	found := c.passes.prober.Find(r.Context(), door)
	sentence, details := messages.Unreachable(host, found)
	unreached.WithLabelValues(string(found.Kind)).Inc()
	log.FromContext(r.Context()).Info("A browser does not reach a desktop", "user", user.Name, "session", sessionKey(r).String(), "host", host, "found", found.Kind, "detail", found.Detail)
	return reply(w, map[string]string{"text": sentence, "details": details})
}

// explain answers a script with the text of an error.
func (c *console) explain(w http.ResponseWriter, r *http.Request, failure error) error {
	code, text := statusOf(failure)
	if code >= http.StatusInternalServerError && !errors.Is(failure, context.Canceled) {
		log.FromContext(r.Context()).Error(failure, "A request of a page failed", "path", r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	return json.NewEncoder(w).Encode(map[string]string{"text": text})
}

// reply answers a script.
func reply(w http.ResponseWriter, content map[string]string) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(content)
}
