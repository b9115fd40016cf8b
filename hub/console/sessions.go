package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
)

// userIndex is the index of sessions by their user.
const userIndex = "spec.user"

// trimmed removes from a cached session what no page shows.
func trimmed(o any) (any, error) {
	if s, ok := o.(*v1alpha1.VDISession); ok {
		s.ManagedFields, s.Annotations = nil, nil
		s.Spec.Env, s.Spec.Files = nil, nil
	}
	return o, nil
}

// watch indexes the sessions, and marks the pages about what changes.
func (c *console) watch(ctx context.Context, sources cache.Cache) error {
	err := sources.IndexField(ctx, &v1alpha1.VDISession{}, userIndex, func(o client.Object) []string {
		return []string{o.(*v1alpha1.VDISession).Spec.User}
	})
	if err != nil {
		return fmt.Errorf("indexing sessions: %w", err)
	}
	if err := onChange(ctx, sources, &v1alpha1.VDISession{}, func(o client.Object) {
		c.topics.Mark(aboutUser(o.(*v1alpha1.VDISession).Spec.User))
		c.topics.Mark(aboutSession(client.ObjectKeyFromObject(o)))
		c.topics.Mark(aboutSessions)
	}); err != nil {
		return err
	}
	return onChange(ctx, sources, &v1alpha1.VDITemplate{}, func(client.Object) { c.topics.Mark(aboutTemplates) })
}

// The topics of pages.
const (
	aboutTemplates = "templates"
	aboutSessions  = "sessions"
	aboutSystem    = "system"
)

func aboutUser(name string) string                 { return "user/" + name }
func aboutSession(key types.NamespacedName) string { return "session/" + key.String() }

// onChange calls a function with each object that is added, changed or deleted.
func onChange(ctx context.Context, sources cache.Cache, kind client.Object, changed func(client.Object)) error {
	informer, err := sources.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	call := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if object, ok := o.(client.Object); ok {
			changed(object)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: call, UpdateFunc: func(_, o any) { call(o) }, DeleteFunc: call,
	})
	return err
}

// reader reads what users may see.
type reader struct {
	// cache has sessions and templates, and live reads from the API server as the console.
	cache, live client.Reader
	authorizer  *impersonation.Authorizer
	// sessionNamespaces are those in which users have sessions.
	sessionNamespaces []string
	survey            *survey
}

// desktop is a session as a page shows it.
type desktop struct {
	messages.View
	Namespace, Name string
	UID             types.UID
	// Template is the name of the session's template, Title the one for people.
	Template, Title string
	// User of the session, and Mine if that is who looks.
	User string
	Mine bool
	// URL of the desktop.
	URL string
	// Origin of the desktop, which the page frames, and the epoch of its placement, if it is behind a door.
	Origin string
	Epoch  int64
}

// own returns the sessions of a user, those that need attention first, then the newest.
func (c *reader) own(ctx context.Context, user login.Identity) ([]desktop, error) {
	var sessions v1alpha1.VDISessionList
	if err := c.cache.List(ctx, &sessions, client.MatchingFields{userIndex: user.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	slices.SortFunc(sessions.Items, func(a, b v1alpha1.VDISession) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	out := make([]desktop, 0, len(sessions.Items))
	for i := range sessions.Items {
		d, err := c.desktop(ctx, &sessions.Items[i], user)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// desktop returns how a page shows a session to a user.
func (c *reader) desktop(ctx context.Context, s *v1alpha1.VDISession, user login.Identity) (desktop, error) {
	t, err := c.template(ctx, s.Spec.Template)
	if err != nil {
		return desktop{}, err
	}
	d := desktop{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, Template: s.Spec.Template, Title: s.Spec.Template,
		User: s.Spec.User, Mine: s.Spec.User == user.Name,
	}
	if s.Status.Endpoint != nil {
		d.URL = s.Status.Endpoint.URL
	}
	var spec *v1alpha1.TemplateSpec
	if t != nil {
		d.Title, spec = title(t), &t.Spec
	}
	d.View = messages.Of(s, spec)
	return d, nil
}

// template returns a template, nil if it does not exist. It must not be changed.
func (c *reader) template(ctx context.Context, name string) (*v1alpha1.VDITemplate, error) {
	t := &v1alpha1.VDITemplate{}
	err := c.cache.Get(ctx, types.NamespacedName{Name: name}, t, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading template %s: %w", name, err)
	}
	return t, nil
}

// errNotFound is the error of a page that does not exist, or that its user may not see.
var errNotFound = errors.New("there is no such page, or you may not see it")

// session returns a session that a user may see: the user's own, or with the right to list those of its
// namespace, since users may get each other's by name. Otherwise the error is errNotFound, so that nobody
// learns which names exist.
func (c *reader) session(ctx context.Context, key types.NamespacedName, user login.Identity) (*v1alpha1.VDISession, error) {
	s := &v1alpha1.VDISession{}
	err := c.cache.Get(ctx, key, s)
	if apierrors.IsNotFound(err) {
		// The cache may not have what this user has just created, by any replica.
		err = c.live.Get(ctx, key, s)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, errNotFound
	case err != nil:
		return nil, fmt.Errorf("reading session %s: %w", key, err)
	case s.Spec.User == user.Name:
		return s, nil
	}
	may, err := c.authorizer.May(ctx, as(user), impersonation.Request{Verb: "list", Resource: "vdisessions", Namespace: key.Namespace})
	switch {
	case err != nil:
		return nil, err
	case !may:
		return nil, errNotFound
	}
	return s, nil
}

// namespaces returns the namespaces in which a user may create sessions.
func (c *reader) namespaces(ctx context.Context, user login.Identity) ([]string, error) {
	var out []string
	for _, namespace := range c.sessionNamespaces {
		may, err := c.authorizer.May(ctx, as(user), impersonation.Request{Verb: "create", Resource: "vdisessions", Namespace: namespace})
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, namespace)
		}
	}
	return out, nil
}

// as returns whom the API server is asked about, or requests act as.
func as(user login.Identity) impersonation.User {
	return impersonation.User{Name: user.Name, Groups: user.Groups}
}

// actingAs returns a context whose requests act as a user.
func actingAs(ctx context.Context, user login.Identity) context.Context {
	who := as(user)
	who.RequestID = requestID(ctx)
	return impersonation.As(ctx, who)
}
