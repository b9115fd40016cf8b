package buffer

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// This role is bound only where the chart enables buffers.
// +kubebuilder:rbac:groups=apps,roleName=vdi-agent-buffers,namespace=vdi-system,resources=deployments,verbs=list;watch;create;update;delete

// Capacity is the part of the capacity watcher that this package uses.
type Capacity interface {
	// Buffers returns the buffers and what they depend on. It must not be changed.
	Buffers() capacity.Buffers
	// Changes receives a value when that may have changed.
	Changes() <-chan struct{}
	// SetStates replaces the states of the buffers in capacity reports.
	SetStates([]*fleetv1.BufferStatus)
}

// Options of a Keeper.
type Options struct {
	Client   kubernetes.Interface
	Capacity Capacity
	// Namespace of the Deployments, the agent's own.
	Namespace string
	// Image of their Pods, the agent's own. If it is empty, no buffer is kept.
	Image string
	// PullSecrets are the names of Secrets for pulling the image.
	PullSecrets []string
	// Retry is how soon what failed is tried again, by default 15 s.
	Retry time.Duration
}

const defaultRetry = 15 * time.Second

// checkTimeout limits the check whether Deployments can be read.
const checkTimeout = 20 * time.Second

// cacheWait bounds the wait until the cache shows a write; cachePoll is the polling interval.
const (
	cacheWait = 2 * time.Second
	cachePoll = 5 * time.Millisecond
)

// Keeper keeps the buffers of the member.
type Keeper struct {
	options Options
	// changed receives a value when a Deployment has changed.
	changed chan struct{}
	// deployments are the Deployments of buffers, nil while they are not watched. unwatch ends that.
	deployments cache.SharedIndexInformer
	unwatch     func()
	// shown are the slots of the buffers that metrics show.
	shown map[string]int32
}

// NewKeeper returns a Keeper that Start runs.
func NewKeeper(o Options) *Keeper {
	if o.Retry == 0 {
		o.Retry = defaultRetry
	}
	return &Keeper{options: o, changed: make(chan struct{}, 1)}
}

// NeedLeaderElection returns true: only the leader writes.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start keeps the buffers until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	defer k.end()
	for {
		var retry <-chan time.Time
		if !k.sync(ctx) {
			retry = time.After(k.options.Retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.options.Capacity.Changes():
		case <-k.changed:
		case <-retry:
		}
	}
}

// end ends the watch of Deployments.
func (k *Keeper) end() {
	if k.deployments != nil {
		k.unwatch()
		k.deployments, k.unwatch = nil, nil
	}
}

// sync makes the Deployments as they are to be, and reports their states. It returns false if that must be tried
// again although nothing changes.
func (k *Keeper) sync(ctx context.Context) (done bool) {
	b := k.options.Capacity.Buffers()
	if !b.Known {
		return true // what there is stays until the hub has sent which buffers there are to be
	}
	if k.options.Image == "" {
		k.report(&b, func(b *capacity.Buffer) *fleetv1.BufferStatus {
			return &fleetv1.BufferStatus{Template: b.Template, Reason: v1alpha1.ReasonBuffersNotEnabled, Message: notEnabled}
		})
		return true
	}
	if len(b.All) == 0 && b.Pods == 0 && k.deployments == nil {
		k.report(&b, nil)
		return true
	}
	if err := k.watch(ctx); err != nil {
		k.report(&b, func(of *capacity.Buffer) *fleetv1.BufferStatus { return stateOf(of, b.Class, nil, err.Error()) })
		return false
	}
	there := k.listed()
	failures := k.apply(ctx, &b, there)
	k.report(&b, func(of *capacity.Buffer) *fleetv1.BufferStatus {
		return stateOf(of, b.Class, there[of.Template], failures[of.Template])
	})
	if len(b.All) == 0 && len(there) == 0 {
		k.end()
	}
	return len(failures) == 0
}

// report reports the state of each buffer.
func (k *Keeper) report(b *capacity.Buffers, state func(*capacity.Buffer) *fleetv1.BufferStatus) {
	wanted := map[string]int32{}
	var states []*fleetv1.BufferStatus
	for i := range b.All {
		wanted[b.All[i].Template] = b.All[i].Slots
		states = append(states, state(&b.All[i]))
	}
	show(k.shown, wanted, states)
	k.shown = wanted
	k.options.Capacity.SetStates(states)
}

// watch watches the Deployments of buffers, and returns once they are cached.
func (k *Keeper) watch(ctx context.Context) error {
	if k.deployments != nil {
		return nil
	}
	check, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	selected := selector().String()
	deployments := k.options.Client.AppsV1().Deployments(k.options.Namespace)
	if _, err := deployments.List(check, metav1.ListOptions{LabelSelector: selected, Limit: 1}); err != nil {
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("the agent may not list Deployments in namespace %s: set buffers.enabled of its chart", k.options.Namespace)
		}
		return fmt.Errorf("listing the Deployments of buffers: %w", err)
	}
	informer := appsinformers.NewFilteredDeploymentInformer(k.options.Client, k.options.Namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = selected })
	signal := func(any) {
		select {
		case k.changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: signal, UpdateFunc: func(_, o any) { signal(o) }, DeleteFunc: signal,
	}); err != nil {
		return fmt.Errorf("watching the Deployments of buffers: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	ended := concurrent.Begin(func() error { informer.RunWithContext(running); return nil })
	k.deployments, k.unwatch = informer, func() {
		stop()
		if err := ended(); err != nil {
			log.FromContext(ctx).WithName("buffer").Error(err, "Watching the Deployments of buffers")
		}
	}
	if !cache.WaitForCacheSync(check.Done(), informer.HasSynced) {
		k.end()
		return fmt.Errorf("the Deployments of buffers can't be read: %w", context.Cause(check))
	}
	return nil
}

// listed returns the cached Deployments by template. They must not be changed.
func (k *Keeper) listed() map[string]*appsv1.Deployment {
	out := map[string]*appsv1.Deployment{}
	for _, o := range k.deployments.GetStore().List() {
		if d, ok := o.(*appsv1.Deployment); ok {
			out[d.Labels[v1alpha1.LabelBuffer]] = d
		}
	}
	return out
}

// apply creates, changes and deletes Deployments, and returns why that failed, by template. What it writes it also
// puts into there.
func (k *Keeper) apply(ctx context.Context, b *capacity.Buffers, there map[string]*appsv1.Deployment) map[string]string {
	failures := map[string]string{}
	for i := range b.All {
		of := &b.All[i]
		got := there[of.Template]
		switch reason, _ := classProblem(b.Class); {
		case of.Requirements == nil, reason != "":
			// It stays as it is: its template is not known yet, or no Pod can be created.
			continue
		}
		now, err := k.write(ctx, of, b.Class, got)
		if err != nil {
			failures[of.Template] = explain(err)
			continue
		}
		there[of.Template] = now
	}
	for template, d := range there {
		if slices.ContainsFunc(b.All, func(b capacity.Buffer) bool { return b.Template == template }) {
			continue
		}
		if err := k.remove(ctx, d); err != nil {
			failures[template] = explain(err)
			log.FromContext(ctx).WithName("buffer").Error(err, "Deleting the Deployment of a buffer that has ended", "deployment", d.Name)
			continue
		}
		delete(there, template)
	}
	return failures
}

// write creates or changes the Deployment of a buffer, and returns it as it is then.
func (k *Keeper) write(ctx context.Context, b *capacity.Buffer, class *capacity.BufferClass, got *appsv1.Deployment) (*appsv1.Deployment, error) {
	want, err := deployment(b, class, &k.options)
	if err != nil {
		return nil, err
	}
	deployments := k.options.Client.AppsV1().Deployments(k.options.Namespace)
	var now *appsv1.Deployment
	switch {
	case got == nil:
		now, err = deployments.Create(ctx, want, metav1.CreateOptions{})
	case got.DeletionTimestamp != nil || !differs(got, want):
		return got, nil
	default:
		now, err = deployments.Update(ctx, revised(got, want), metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err):
		return got, nil // the cache is about to show who changed it
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("the name is taken: Deployment %s/%s exists, and is not that of a buffer: delete it", want.Namespace, want.Name)
	case err != nil:
		return nil, err
	}
	k.awaitCached(ctx, now)
	return now, nil
}

// awaitCached waits until the cache shows a Deployment that was written: an older one would be written again.
func (k *Keeper) awaitCached(ctx context.Context, d *appsv1.Deployment) {
	_ = wait.PollUntilContextTimeout(ctx, cachePoll, cacheWait, true, func(context.Context) (bool, error) {
		o, exists, err := k.deployments.GetStore().Get(d)
		shown, ok := o.(*appsv1.Deployment)
		return err == nil && exists && ok && (shown.UID != d.UID || shown.Generation >= d.Generation), nil
	})
}

// remove deletes a Deployment and, by Kubernetes' garbage collector, its Pods.
func (k *Keeper) remove(ctx context.Context, d *appsv1.Deployment) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	background := metav1.DeletePropagationBackground
	err := k.options.Client.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &d.UID},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// explain returns an error of a request, with the remedy if the API server denies it.
func explain(err error) string {
	if denied.Is(err) {
		return denied.Explain(err)
	}
	return err.Error()
}
