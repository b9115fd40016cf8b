package nsinformer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list

// namespaces are watched by their metadata.
var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// managedSelector selects the objects that are listed and watched.
var managedSelector = labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()

// namespaceLimited reports whether the agent reads a kind only in admitted namespaces. Pods
// are read everywhere, since all use capacity.
func namespaceLimited(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.Secret, *corev1.ConfigMap, *corev1.PersistentVolumeClaim, *corev1.Service,
		*networkingv1.Ingress, *networkingv1.NetworkPolicy, *policyv1.PodDisruptionBudget, *gatewayv1.HTTPRoute:
		return true
	}
	return false
}

// Cluster has the options of a cache to reach the member's API server.
type Cluster struct {
	Config *rest.Config
	// HTTPClient is built from Config.
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper
}

// NewInformer returns an informer limited to admitted namespaces for the kinds that the agent
// may read only there, and client-go's for others. It is for the options of a cache.
func (c Cluster) NewInformer(clusterWide toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if namespaceLimited(object) {
		l := &listerWatcher{
			cluster: c, object: object, readable: map[string]bool{}, forbiddenSince: map[string]time.Time{},
		}
		clusterWide = toolscache.ToListWatcherWithWatchListSemantics(
			&toolscache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}, l)
	}
	return toolscache.NewSharedIndexInformer(clusterWide, object, resync, indexers)
}

// listerWatcher lists and watches one kind in the admitted namespaces. It is for one
// reflector, which lists and watches in turn.
type listerWatcher struct {
	cluster Cluster
	object  runtime.Object
	clients *clients
	// listed is where the next watch continues. It is nil if there was no list since the
	// last watch: the next one has expired.
	listed *listed
	// readable has the namespaces that were listed once, and forbiddenSince when one of
	// these was first forbidden.
	readable       map[string]bool
	forbiddenSince map[string]time.Time
}

// clients are the clients of the API server, created with the first list.
type clients struct {
	names      metadata.Interface
	kind       rest.Interface
	resource   string
	list       runtime.Object
	parameters runtime.ParameterCodec
}

// listed has the resource versions of a list.
type listed struct {
	// namespaces is the version of the list of labeled namespaces.
	namespaces string
	// byNamespace is the version of the list in each namespace.
	byNamespace map[string]string
	// forbidden has the namespaces whose list is forbidden: they are labeled, but the
	// agent's role is not bound there.
	forbidden []string
}

// IsWatchListSemanticsUnSupported makes reflectors list first, and then watch.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// list lists the admitted namespaces one after the other.
func (l *listerWatcher) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if l.clients == nil {
		made, err := l.cluster.clients(l.object)
		if err != nil {
			return nil, err
		}
		l.clients = made
	}
	c := l.clients
	names, version, err := c.admitted(ctx)
	if err != nil {
		return nil, err
	}
	seen := &listed{namespaces: version, byNamespace: map[string]string{}}
	var all []runtime.Object
	for _, name := range names {
		items, version, err := c.listIn(ctx, name)
		if apierrors.IsForbidden(err) && l.skipForbidden(name) {
			logForbidden(ctx, c.resource, name)
			seen.forbidden = append(seen.forbidden, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		l.readable[name] = true
		delete(l.forbiddenSince, name)
		all, seen.byNamespace[name] = append(all, items...), version
	}
	l.listed = seen
	list := c.list.DeepCopyObject().(client.ObjectList)
	if err := meta.SetList(list, all); err != nil {
		return nil, fmt.Errorf("listing %s: %w", c.resource, err)
	}
	list.SetResourceVersion(version)
	return list, nil
}

// skipForbidden reports whether a forbidden namespace is skipped. One that was readable is
// retried for some time: an API server that starts may forbid allowed requests, and its
// objects must not seem to be deleted.
func (l *listerWatcher) skipForbidden(name string) bool {
	if !l.readable[name] {
		return true
	}
	since, known := l.forbiddenSince[name]
	if !known {
		l.forbiddenSince[name] = time.Now()
	}
	return known && time.Since(since) > forbiddenAfter
}

// watch continues from the last list. The end of one watch ends all of them, as
// if the version had expired, and a list follows.
func (l *listerWatcher) watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	from := l.listed
	l.listed = nil
	if from == nil {
		return nil, expired
	}
	return startMerged(ctx, l.clients, from), nil
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
	names, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.Config), c.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &clients{
		names: names, kind: kind, resource: mapping.Resource.Resource, list: list, parameters: runtime.NewParameterCodec(c.Scheme),
	}, nil
}

// admitted returns the admitted namespaces, sorted, and the version of the list of
// those with the label.
func (c *clients) admitted(ctx context.Context) (names []string, version string, err error) {
	labeled, err := c.names.Resource(namespaces).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, "", fmt.Errorf("listing the admitted namespaces: %w", err)
	}
	for i := range labeled.Items {
		names = append(names, labeled.Items[i].Name)
	}
	// The API server's cache suffices: newer assignments are in labeled namespaces.
	withAssignments, err := c.names.Resource(v1alpha1.GroupVersion.WithResource("sessionassignments")).
		List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, "", fmt.Errorf("listing the namespaces with assignments: %w", err)
	}
	for i := range withAssignments.Items {
		names = append(names, withAssignments.Items[i].Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), labeled.ResourceVersion, nil
}

// listIn lists the agent's objects in a namespace.
func (c *clients) listIn(ctx context.Context, namespace string) ([]runtime.Object, string, error) {
	list := c.list.DeepCopyObject().(client.ObjectList)
	err := c.request(namespace, &metav1.ListOptions{LabelSelector: managedSelector}).Do(ctx).Into(list)
	if err != nil {
		return nil, "", fmt.Errorf("listing %s in namespace %s: %w", c.resource, namespace, err)
	}
	items, err := meta.ExtractList(list)
	return items, list.GetResourceVersion(), err
}

func (c *clients) request(namespace string, options *metav1.ListOptions) *rest.Request {
	return c.kind.Get().Namespace(namespace).Resource(c.resource).VersionedParams(options, c.parameters)
}
