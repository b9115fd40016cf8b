package template

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
)

// cacheWait bounds the wait until the hub's cache shows a revision that was just stored;
// cachePoll is the polling interval.
const (
	cacheWait = time.Second
	cachePoll = 5 * time.Millisecond
)

// RevisionKey identifies a revision in indexes.
func RevisionKey(template, revision string) string { return template + "/" + revision }

// Revisions stores template revisions as ControllerRevisions on the hub: each is written
// before its first use, so that a session keeps its revision whatever happens to the
// template.
type Revisions struct {
	client client.Client
	// namespace of the ControllerRevisions.
	namespace string

	// keeping reduces a burst of sessions of a new revision to one write.
	keeping sync.Mutex

	// specs that were read recently, by the names of their ControllerRevisions.
	specs *lru.Cache
	// hashes are the revisions of templates that were used recently, by their versions.
	hashes *lru.Cache
}

// maxSpecs bounds the memory for specs: beyond it, specs are read from the hub's cache and
// decoded each time.
const maxSpecs = 1024

// NewRevisions returns a store of revisions in a namespace.
func NewRevisions(c client.Client, namespace string) *Revisions {
	return &Revisions{client: c, namespace: namespace, specs: lru.New(maxSpecs), hashes: lru.New(maxSpecs)}
}

// Keep stores a revision if it is not stored yet. It does not use the cached specs: a
// pruned revision may return when its template is edited back.
func (r *Revisions) Keep(ctx context.Context, template *v1alpha1.VDITemplate, revision string) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	key := types.NamespacedName{Namespace: r.namespace, Name: RevisionName(template.Name, revision)}
	if err := r.client.Get(ctx, key, &appsv1.ControllerRevision{}); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	raw, err := json.Marshal(&template.Spec)
	if err != nil {
		return fmt.Errorf("storing template revision: %w", err)
	}
	cr := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: raw}, Revision: template.Generation}
	cr.Namespace, cr.Name = key.Namespace, key.Name
	cr.Labels = map[string]string{LabelTemplate: template.Name, LabelRevision: revision}
	if err := r.client.Create(ctx, cr); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("storing template revision: %w", err)
	}
	// Callers that wait for the lock would not see it yet, and write it once more.
	_ = wait.PollUntilContextTimeout(ctx, cachePoll, cacheWait, true, func(ctx context.Context) (bool, error) {
		return r.client.Get(ctx, key, cr) == nil, nil
	})
	return nil
}

// Of returns the revision of a template as it was read from the hub's cache.
func (r *Revisions) Of(t *v1alpha1.VDITemplate) (string, error) {
	read := [...]string{t.Name, string(t.UID), t.ResourceVersion}
	if revision, known := r.hashes.Get(read); known {
		return revision.(string), nil
	}
	revision, err := v1alpha1.RevisionOf(&t.Spec)
	if err == nil {
		r.hashes.Add(read, revision)
	}
	return revision, err
}

// Spec returns the template spec of a revision; it must not be changed. The error is
// NotFound if no such revision is stored.
func (r *Revisions) Spec(ctx context.Context, template, revision string) (*v1alpha1.TemplateSpec, error) {
	name := RevisionName(template, revision)
	if spec, known := r.specs.Get(name); known {
		return spec.(*v1alpha1.TemplateSpec), nil
	}
	cr := &appsv1.ControllerRevision{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: r.namespace, Name: name}, cr); err != nil {
		return nil, err
	}
	_, _, spec, err := ReadRevision(cr)
	if err != nil {
		return nil, err
	}
	r.specs.Add(name, spec)
	return spec, nil
}

// Naming returns the keys of the revisions whose spec names a Secret.
func (r *Revisions) Naming(ctx context.Context, name string) ([]string, error) {
	kept := &appsv1.ControllerRevisionList{}
	if err := r.client.List(ctx, kept, client.InNamespace(r.namespace), client.HasLabels{LabelTemplate}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing template revisions: %w", err)
	}
	var out []string
	for i := range kept.Items {
		template, revision := kept.Items[i].Labels[LabelTemplate], kept.Items[i].Labels[LabelRevision]
		spec, err := r.Spec(ctx, template, revision)
		if err == nil && slices.Contains(secret.NamedBy(spec), name) {
			out = append(out, RevisionKey(template, revision))
		}
	}
	return out, nil
}
