package nsinformer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list

// ours selects the objects of a namespace that are listed and watched.
var ours = labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()

// within reports whether a kind is one that the agent reads in admitted namespaces
// only. Pods are not: every Pod on a node uses its capacity.
func within(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.Secret, *corev1.ConfigMap, *corev1.PersistentVolumeClaim, *corev1.Service,
		*networkingv1.Ingress, *networkingv1.NetworkPolicy, *policyv1.PodDisruptionBudget, *gatewayv1.HTTPRoute:
		return true
	}
	return false
}

// Cluster is how to reach the member, as in the options of a cache.
type Cluster struct {
	Config *rest.Config
	// HTTPClient is built from Config.
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper
}

// NewInformer is for the options of a cache. It returns an informer of our objects
// in admitted namespaces for the kinds that the agent may read only there, and
// client-go's for all others.
func (c Cluster) NewInformer(everywhere toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if within(object) {
		everywhere = &listerWatcher{
			cluster: c, object: object, open: map[string]bool{}, refused: map[string]time.Time{},
		}
	}
	return toolscache.NewSharedIndexInformer(everywhere, object, resync, indexers)
}

// listerWatcher lists and watches one kind in the admitted namespaces.
type listerWatcher struct {
	cluster Cluster
	object  runtime.Object

	mu      sync.Mutex
	clients *clients
	// listed is what the next watch continues from. It is nil if nothing was listed
	// since the last watch: the next one has expired.
	listed *listed
	// open are the namespaces that were listed once, and refused is since when one of
	// these has been forbidden.
	open    map[string]bool
	refused map[string]time.Time
}

// clients are the clients of the API server, created with the first list.
type clients struct {
	namespaces  kubernetes.Interface
	assignments metadata.Interface
	kind        rest.Interface
	resource    string
	list        runtime.Object
	parameters  runtime.ParameterCodec
}

// listed is the result of a list, by resource version.
type listed struct {
	// labelled is the version of the list of namespaces.
	labelled string
	// in is the version of the list in each namespace.
	in map[string]string
	// shut are the namespaces that have forbidden the list: their administrator has
	// set the label, and not bound the role, or has removed the binding.
	shut []string
}

// IsWatchListSemanticsUnSupported makes reflectors list first, and then watch.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// List calls ListWithContext.
func (l *listerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch calls WatchWithContext.
func (l *listerWatcher) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext lists the admitted namespaces one after the other.
func (l *listerWatcher) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	c, err := l.connect()
	if err != nil {
		return nil, err
	}
	names, version, err := c.admitted(ctx)
	if err != nil {
		return nil, err
	}
	seen := &listed{labelled: version, in: map[string]string{}}
	var all []runtime.Object
	for _, name := range names {
		items, version, err := c.listIn(ctx, name)
		if apierrors.IsForbidden(err) && l.isShut(name) {
			logShut(ctx, c.resource, name)
			seen.shut = append(seen.shut, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		l.isOpen(name)
		all, seen.in[name] = append(all, items...), version
	}
	l.mu.Lock()
	l.listed = seen
	l.mu.Unlock()
	list := c.list.DeepCopyObject()
	if err := meta.SetList(list, all); err != nil {
		return nil, fmt.Errorf("listing %s: %w", c.resource, err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", c.resource, err)
	}
	accessor.SetResourceVersion(version)
	return list, nil
}

// isShut reports whether a namespace that is forbidden is skipped. One that was open
// is retried for some time first: an API server that starts forbids for a moment what
// it allows, and our objects must not seem to be deleted.
func (l *listerWatcher) isShut(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open[name] {
		return true
	}
	since, known := l.refused[name]
	if !known {
		l.refused[name] = time.Now()
	}
	return known && time.Since(since) > shutAfter
}

func (l *listerWatcher) isOpen(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[name] = true
	delete(l.refused, name)
}

// WatchWithContext continues from the last list. The end of one of the watches ends
// all of them, as if the version were too old, and a list follows.
func (l *listerWatcher) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	c, err := l.connect()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	from := l.listed
	l.listed = nil
	l.mu.Unlock()
	if from == nil {
		return nil, expired
	}
	return begin(ctx, c, from), nil
}

func (l *listerWatcher) connect() (*clients, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients != nil {
		return l.clients, nil
	}
	c, err := l.cluster.clients(l.object)
	if err != nil {
		return nil, err
	}
	l.clients = c
	return c, nil
}

func (c Cluster) clients(object runtime.Object) (*clients, error) {
	gvk, err := apiutil.GVKForObject(object, c.Scheme)
	if err != nil {
		return nil, err
	}
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	kind, err := apiutil.RESTClientForGVK(gvk, false, false, c.Config, serializer.NewCodecFactory(c.Scheme), c.HTTPClient)
	if err != nil {
		return nil, err
	}
	list, err := c.Scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	namespaces, err := kubernetes.NewForConfigAndClient(c.Config, c.HTTPClient)
	if err != nil {
		return nil, err
	}
	assignments, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.Config), c.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &clients{
		namespaces: namespaces, assignments: assignments,
		kind: kind, resource: mapping.Resource.Resource, list: list, parameters: runtime.NewParameterCodec(c.Scheme),
	}, nil
}

// admitted returns the admitted namespaces, sorted, and the version of the list of
// those with the label.
func (c *clients) admitted(ctx context.Context) (names []string, version string, err error) {
	labelled, err := c.namespaces.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, "", fmt.Errorf("listing the namespaces that are admitted: %w", err)
	}
	for i := range labelled.Items {
		names = append(names, labelled.Items[i].Name)
	}
	// The API server's cache is enough: an assignment that was created since is in a
	// namespace with the label.
	held, err := c.assignments.Resource(v1alpha1.GroupVersion.WithResource("sessionassignments")).
		List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, "", fmt.Errorf("listing the namespaces with assignments: %w", err)
	}
	for i := range held.Items {
		names = append(names, held.Items[i].Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), labelled.ResourceVersion, nil
}

// listIn lists our objects in a namespace.
func (c *clients) listIn(ctx context.Context, namespace string) ([]runtime.Object, string, error) {
	list := c.list.DeepCopyObject()
	err := c.request(namespace, &metav1.ListOptions{LabelSelector: ours}).Do(ctx).Into(list)
	if err != nil {
		return nil, "", fmt.Errorf("listing %s in namespace %s: %w", c.resource, namespace, err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", fmt.Errorf("listing %s in namespace %s: %w", c.resource, namespace, err)
	}
	items, err := meta.ExtractList(list)
	return items, accessor.GetResourceVersion(), err
}

func (c *clients) request(namespace string, options *metav1.ListOptions) *rest.Request {
	return c.kind.Get().Namespace(namespace).Resource(c.resource).VersionedParams(options, c.parameters)
}
