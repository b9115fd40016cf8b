package session

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/fleet"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
)

// The hub's cache gets cacheWait to show a revision that was just stored, and
// is asked every cachePoll.
const (
	cacheWait = time.Second
	cachePoll = 5 * time.Millisecond
)

// Revisions keeps template revisions as ControllerRevisions on the hub: each
// is written before its first use, so that a session keeps what it was made
// of whatever becomes of the template.
type Revisions struct {
	Client client.Client
	// Namespace of the ControllerRevisions.
	Namespace string

	// keeping makes one write of a burst of sessions of a new revision.
	keeping sync.Mutex

	mu    sync.Mutex
	specs map[string]*v1alpha1.TemplateSpec
}

// Keep makes sure that a revision is stored. It does not trust its memory: one
// that was pruned may come back when its template is edited back.
func (r *Revisions) Keep(ctx context.Context, template *v1alpha1.VDITemplate, revision string) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	key := types.NamespacedName{Namespace: r.Namespace, Name: fleet.RevisionName(template.Name, revision)}
	if err := r.Client.Get(ctx, key, &appsv1.ControllerRevision{}); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	raw, err := json.Marshal(&template.Spec)
	if err != nil {
		return fmt.Errorf("storing template revision: %w", err)
	}
	cr := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: raw}, Revision: template.Generation}
	cr.Namespace, cr.Name = key.Namespace, key.Name
	cr.Labels = map[string]string{fleet.LabelTemplate: template.Name, fleet.LabelRevision: revision}
	if err := r.Client.Create(ctx, cr); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("storing template revision: %w", err)
	}
	// Those that wait here would not see it yet, and write it once more.
	_ = wait.PollUntilContextTimeout(ctx, cachePoll, cacheWait, true, func(ctx context.Context) (bool, error) {
		return r.Client.Get(ctx, key, cr) == nil, nil
	})
	return nil
}

// Spec returns the template spec of a revision; it must not be changed. The
// error is NotFound where no such revision is kept.
func (r *Revisions) Spec(ctx context.Context, template, revision string) (*v1alpha1.TemplateSpec, error) {
	name := fleet.RevisionName(template, revision)
	r.mu.Lock()
	spec := r.specs[name]
	r.mu.Unlock()
	if spec != nil {
		return spec, nil
	}
	cr := &appsv1.ControllerRevision{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name}, cr); err != nil {
		return nil, err
	}
	_, _, spec, err := fleet.ReadRevision(cr)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.specs == nil {
		r.specs = map[string]*v1alpha1.TemplateSpec{}
	}
	r.specs[name] = spec
	return spec, nil
}

// naming are the revisions, as the index has them, whose spec names a Secret.
func (r *Revisions) naming(ctx context.Context, name string) ([]string, error) {
	kept := &appsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, kept, client.InNamespace(r.Namespace), client.HasLabels{fleet.LabelTemplate}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing template revisions: %w", err)
	}
	var out []string
	for i := range kept.Items {
		template, revision := kept.Items[i].Labels[fleet.LabelTemplate], kept.Items[i].Labels[fleet.LabelRevision]
		spec, err := r.Spec(ctx, template, revision)
		if err == nil && slices.Contains(secret.NamedBy(spec), name) {
			out = append(out, revisionKey(template, revision))
		}
	}
	return out, nil
}
