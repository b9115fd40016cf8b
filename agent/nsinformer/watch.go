package nsinformer

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// label of admitted namespaces.
var label = labels.SelectorFromSet(labels.Set{v1alpha1.LabelAdmitSessions: "true"}).String()

const (
	// forbiddenRetry is how often a forbidden namespace is retried: no event announces a
	// role binding.
	forbiddenRetry = 3 * time.Second
	// forbiddenAfter is how long one that was readable is retried before it is skipped.
	forbiddenAfter = 15 * time.Second
)

// expired makes a reflector list again.
var expired = apierrors.NewResourceExpired("the watches of the admitted namespaces restart from a new list")

// merged merges the watches in all admitted namespaces, and that of the namespaces.
type merged struct {
	clients *clients
	results chan watch.Event
	cancel  context.CancelFunc
	// watches are the goroutines that may send. The end of one ends all.
	watches *errgroup.Group
}

func startMerged(ctx context.Context, c *clients, from *listed) *merged {
	ctx, cancel := context.WithCancel(ctx)
	watches, each := errgroup.WithContext(ctx)
	m := &merged{clients: c, results: make(chan watch.Event), cancel: cancel, watches: watches}
	for namespace, version := range from.byNamespace {
		watches.Go(func() error { return m.follow(each, namespace, version) })
	}
	watches.Go(func() error { return m.namespaces(each, from) })
	for _, namespace := range from.forbidden {
		watches.Go(func() error { return m.retryJoin(each, namespace) })
	}
	go m.finish(ctx)
	return m
}

// ResultChan implements watch.Interface.
func (m *merged) ResultChan() <-chan watch.Event { return m.results }

// Stop implements watch.Interface.
func (m *merged) Stop() { m.cancel() }

// finish waits for the end of all watches.
func (m *merged) finish(ctx context.Context) {
	defer close(m.results)
	defer m.cancel()
	if _ = m.watches.Wait(); ctx.Err() == nil {
		status := expired.Status()
		m.send(ctx, watch.Event{Type: watch.Error, Object: &status})
	}
}

func (m *merged) send(ctx context.Context, event watch.Event) bool {
	select {
	case m.results <- event:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow sends the changes in a namespace after a version, and returns expired at the end.
func (m *merged) follow(ctx context.Context, namespace, version string) error {
	w, err := m.clients.request(namespace, &metav1.ListOptions{LabelSelector: managedSelector, Watch: true, ResourceVersion: version}).Watch(ctx)
	if err == nil {
		m.forward(ctx, w, func(event watch.Event) bool { return m.send(ctx, event) })
	}
	return expired
}

// forward handles each change of an object until the watch ends.
func (m *merged) forward(ctx context.Context, w watch.Interface, handle func(watch.Event) bool) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return
			}
			if event.Type != watch.Bookmark && !handle(event) {
				return
			}
		}
	}
}

// join lists and watches another namespace. Its error is Forbidden if the list is.
func (m *merged) join(ctx context.Context, namespace string) error {
	items, version, err := m.clients.listIn(ctx, namespace)
	if err != nil {
		return err
	}
	for _, item := range items {
		if !m.send(ctx, watch.Event{Type: watch.Added, Object: item}) {
			return ctx.Err()
		}
	}
	return m.follow(ctx, namespace, version)
}

// retryJoin joins a namespace once that is not forbidden any more.
func (m *merged) retryJoin(ctx context.Context, namespace string) error {
	return wait.PollUntilContextCancel(ctx, forbiddenRetry, false, func(ctx context.Context) (bool, error) {
		err := m.join(ctx, namespace)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return true, err
	})
}

// namespaces joins newly admitted namespaces, and ends all watches when one is not admitted
// any more: the next list omits it, unless it has an assignment.
func (m *merged) namespaces(ctx context.Context, from *listed) error {
	known := sets.KeySet(from.byNamespace).Insert(from.forbidden...)
	w, err := m.clients.names.Resource(namespaces).Watch(ctx, metav1.ListOptions{LabelSelector: label, ResourceVersion: from.namespaces})
	if err != nil {
		return expired
	}
	m.forward(ctx, w, func(event watch.Event) bool {
		name := event.Object.(*metav1.PartialObjectMetadata).Name
		switch {
		case event.Type == watch.Deleted:
			return false
		case event.Type == watch.Added && !known.Has(name):
			known.Insert(name)
			m.watches.Go(func() error {
				err := m.join(ctx, name)
				if apierrors.IsForbidden(err) {
					logForbidden(ctx, m.clients.resource, name)
					return m.retryJoin(ctx, name)
				}
				return err
			})
		}
		return true
	})
	return expired
}

func logForbidden(ctx context.Context, resource, namespace string) {
	log.FromContext(ctx).Info("A namespace is labeled for sessions, but the agent has no permissions there: bind the ClusterRole vdi-agent-sessions to the agent in that namespace",
		"namespace", namespace, "resource", resource)
}
