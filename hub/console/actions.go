package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
)

// errOutdated is the error of an action that a session does not have any more.
var errOutdated = errors.New("what you saw has changed: look at it again")

// act handles POST /s/{namespace}/{name}/{action}.
func (c *console) act(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	key, action := sessionKey(r), messages.Action(r.PathValue("action"))
	done := c.audit(r, user, string(action), key)
	err := c.actOn(r.Context(), key, types.UID(r.FormValue("uid")), action, user)
	done(err)
	if err != nil {
		return err
	}
	// The page of a suspended session wakes it, so that a user who has just suspended it is not led there.
	to := "/"
	if action == messages.Wake || action == messages.Extend || action == messages.Retry {
		to = "/s/" + key.Namespace + "/" + key.Name
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// sessionKey returns the session that a path names.
func sessionKey(r *http.Request) types.NamespacedName {
	return types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

// actOn does what a user chose for the session that the user saw.
func (c *console) actOn(ctx context.Context, key types.NamespacedName, seen types.UID, action messages.Action, user login.Identity) error {
	s, err := c.session(ctx, key, user)
	if err != nil {
		return err
	}
	t, err := c.template(ctx, s.Spec.Template)
	if err != nil {
		return err
	}
	var spec *v1alpha1.TemplateSpec
	if t != nil {
		spec = &t.Spec
	}
	if s.UID == seen && isDone(s, action) {
		return nil
	}
	if s.UID != seen || action == messages.Open || !messages.Of(s, spec).Can(action) {
		return errOutdated
	}
	if err := c.impersonates.Passed(); err != nil {
		return err
	}
	ctx = actingAs(ctx, user)
	if action == messages.End {
		return client.IgnoreNotFound(c.users.Delete(ctx, s, client.Preconditions{UID: ptr.To(s.UID)}))
	}
	patch, err := patchFor(s, spec, action)
	if err != nil {
		return err
	}
	return c.users.Patch(ctx, s.DeepCopy(), patch)
}

// isDone reports whether a session is as an action makes it: the action was submitted twice.
func isDone(s *v1alpha1.VDISession, action messages.Action) bool {
	switch action {
	case messages.Wake:
		return s.Spec.OperatingMode != v1alpha1.ModeSuspended
	case messages.Suspend:
		return s.Spec.OperatingMode == v1alpha1.ModeSuspended
	case messages.End:
		return !s.DeletionTimestamp.IsZero()
	}
	return false
}

// patchFor returns the patch for an action. It names the session's UID, so that it changes no other session
// of the same name.
func patchFor(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, action messages.Action) (client.Patch, error) {
	spec := map[string]any{}
	switch action {
	case messages.Wake:
		spec["operatingMode"] = v1alpha1.ModeRunning
	case messages.Suspend:
		spec["operatingMode"] = v1alpha1.ModeSuspended
	case messages.Extend:
		longer, ok := messages.Extended(s, t)
		if !ok {
			return nil, errOutdated
		}
		spec["timeout"] = longer
	case messages.Retry:
		// From the attempt that ended: submitted twice, it is one attempt.
		spec["attempt"] = max(s.Spec.Attempt, s.Status.Attempt+1)
	default:
		return nil, errNotFound
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID}, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, patch), nil
}

// statusOf returns the status and the text that a user sees of an error. Messages of the API server's admission are
// shown as they are.
func statusOf(err error) (int, string) {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, errNotFound):
		return http.StatusNotFound, sentence(err)
	case errors.Is(err, errMalformed):
		return http.StatusBadRequest, sentence(err)
	case errors.Is(err, errOutdated):
		return http.StatusConflict, sentence(err)
	case errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && status.Status().Reason != metav1.StatusReasonUnauthorized:
		return int(status.Status().Code), status.Status().Message
	}
	return http.StatusServiceUnavailable, "This was not done, since the system does not answer as it should. Try again in a moment; if it lasts, ask your administrator."
}
