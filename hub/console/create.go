package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// newPage is the page on which a user starts a desktop.
type newPage struct {
	offer
	// NewName is the name of the session to create. The form sends it back, so that a form that is submitted
	// twice creates one session.
	NewName string
}

// newForm handles GET /new/{template}.
func (c *console) newForm(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	o, err := c.offered(r.Context(), r.PathValue("template"), user)
	if err != nil {
		return err
	}
	return c.page(w, http.StatusOK, "new", page{Title: "Start " + o.Title, User: user, Content: newPage{o, newName(o.Name)}})
}

// offered returns the offer of a template by its name, which may be hidden, to a user.
func (c *reader) offered(ctx context.Context, name string, user login.Identity) (offer, error) {
	t, err := c.template(ctx, name)
	if err != nil {
		return offer{}, err
	}
	namespaces, err := c.namespaces(ctx, user)
	if err != nil {
		return offer{}, err
	}
	if t != nil {
		for _, o := range offered(t, user, namespaces) {
			return o, nil
		}
	}
	return offer{}, errNotFound
}

// suffix is the length of what makes the names of a template's sessions unique.
const suffix = 5

// newName returns a name for a session of a template.
func newName(template string) string {
	most := validation.DNS1123LabelMaxLength - suffix - 1
	return strings.TrimRight(template[:min(len(template), most)], "-") + "-" + strings.ToLower(rand.Text()[:suffix])
}

// create handles POST /new/{template}.
func (c *console) create(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	key := types.NamespacedName{Namespace: r.FormValue("namespace"), Name: r.FormValue("name")}
	done := c.audit(r, user, "create", key)
	err := c.createSession(r.Context(), r.PathValue("template"), key, user)
	done(err)
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/s/"+key.Namespace+"/"+key.Name, http.StatusSeeOther)
	return nil
}

// createSession creates a session as its user.
func (c *console) createSession(ctx context.Context, template string, key types.NamespacedName, user login.Identity) error {
	o, err := c.offered(ctx, template, user)
	if err != nil {
		return err
	}
	if !slices.Contains(o.Namespaces, key.Namespace) || len(validation.IsDNS1123Label(key.Name)) > 0 {
		return errOutdated
	}
	t, err := c.template(ctx, template)
	if err != nil || t == nil {
		return fmt.Errorf("reading template %s again: %w", template, err)
	}
	if err := c.impersonates.Passed(); err != nil {
		return err
	}
	s := &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.SessionSpec{User: user.Name, Template: template, Groups: sessionGroups(t, user)},
	}
	err = c.users.Create(actingAs(ctx, user), s)
	if apierrors.IsAlreadyExists(err) && c.isOwn(ctx, key, template, user) {
		return nil // the form was submitted before
	}
	return err
}

// isOwn reports whether a session is one of a user and a template.
func (c *console) isOwn(ctx context.Context, key types.NamespacedName, template string, user login.Identity) bool {
	s := &v1alpha1.VDISession{}
	err := c.live.Get(ctx, key, s)
	return err == nil && s.Spec.User == user.Name && s.Spec.Template == template
}

// direct handles GET /d/{template}: it leads to the user's own session of the template, or to the start of one.
func (c *console) direct(w http.ResponseWriter, r *http.Request, user login.Identity) error {
	sessions, err := c.own(r.Context(), user)
	if err != nil {
		return err
	}
	template := r.PathValue("template")
	to := "/new/" + template
	if d, ok := best(sessions, template); ok {
		to = "/s/" + d.Namespace + "/" + d.Name
	} else if _, err := c.offered(r.Context(), template, user); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}
