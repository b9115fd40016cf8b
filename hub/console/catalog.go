package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// offer is a template that a user may start a session of.
type offer struct {
	// Name of the template, Title for people, and Description, which may be empty.
	Name, Title, Description string
	// Namespaces that the session may be in, at least one.
	Namespaces []string
	// Available is false if no member can run the template.
	Available bool
}

// offers returns the templates that a user may start a session of, by title.
func (c *reader) offers(ctx context.Context, user login.Identity) ([]offer, error) {
	namespaces, err := c.namespaces(ctx, user)
	if err != nil || len(namespaces) == 0 {
		return nil, err
	}
	var templates v1alpha1.VDITemplateList
	if err := c.cache.List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	var out []offer
	for i := range templates.Items {
		t := &templates.Items[i]
		if t.Spec.State != v1alpha1.TemplateHidden {
			out = append(out, offered(t, user, namespaces)...)
		}
	}
	slices.SortFunc(out, func(a, b offer) int { return cmp.Or(cmp.Compare(a.Title, b.Title), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// offered returns the offer of a template to a user who may create sessions in namespaces, or none.
func offered(t *v1alpha1.VDITemplate, user login.Identity, namespaces []string) []offer {
	if t.Spec.State == v1alpha1.TemplateDisabled || !t.DeletionTimestamp.IsZero() || !t.Spec.AllowsUser(user.Name, user.Groups) {
		return nil
	}
	o := offer{
		Name: t.Name, Title: title(t), Description: t.Annotations[v1alpha1.AnnotationDescription],
		Available: t.Status.AvailableClusters > 0,
	}
	for _, namespace := range namespaces {
		if t.Spec.AllowsNamespace(namespace) {
			o.Namespaces = append(o.Namespaces, namespace)
		}
	}
	if len(o.Namespaces) == 0 {
		return nil
	}
	return []offer{o}
}

// title returns the name of a template for people.
func title(t *v1alpha1.VDITemplate) string { return cmp.Or(t.Spec.Title, t.Name) }

// maxGroups is how many groups the console gives a session.
const maxGroups = 16

// sessionGroups returns the groups of a user that a template names, which a session needs to use it.
func sessionGroups(t *v1alpha1.VDITemplate, user login.Identity) []string {
	var out []string
	for _, group := range user.Groups {
		if len(out) < maxGroups && slices.Contains(t.Spec.AllowedGroups, group) {
			out = append(out, group)
		}
	}
	return out
}
