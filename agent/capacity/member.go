package capacity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=nodes;pods;namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=list;watch

// watchMember starts all informers but that of assignments. It returns whether each has
// synced, and a function that waits for their end once the context has ended.
func (w *Watcher) watchMember(ctx context.Context) (synced []cache.InformerSynced, stop func(), err error) {
	stripped := informers.WithTransform(ctrlcache.TransformStripManagedFields())
	all := informers.NewSharedInformerFactoryWithOptions(w.options.Client, 0, stripped)
	admitted := informers.NewSharedInformerFactoryWithOptions(w.options.Client, 0, stripped,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.SelectorFromSet(labels.Set{v1alpha1.LabelAdmitSessions: "true"}).String()
		}))
	for _, v := range []struct {
		what      string
		informer  cache.SharedIndexInformer
		transform cache.TransformFunc
		handler   cache.ResourceEventHandler
	}{
		{"nodes", all.Core().V1().Nodes().Informer(), trim(NodeOf), nodeHandler(w)},
		{"pods", all.Core().V1().Pods().Informer(), trim(PodOf), podHandler(w)},
		{"namespaces", admitted.Core().V1().Namespaces().Informer(), nil, relistHandler(w, admitted.Core().V1().Namespaces().Lister().List, enforcing, w.setNamespaces)},
		{"storage classes", all.Storage().V1().StorageClasses().Informer(), nil, relistHandler(w, all.Storage().V1().StorageClasses().Lister().List, storageClassesOf, (*Model).SetStorageClasses)},
		{"ingress classes", all.Networking().V1().IngressClasses().Informer(), nil, relistHandler(w, all.Networking().V1().IngressClasses().Lister().List, ingressClassesOf, (*Model).SetIngressClasses)},
		{"runtime classes", all.Node().V1().RuntimeClasses().Informer(), nil, relistHandler(w, all.Node().V1().RuntimeClasses().Lister().List, runtimeClassesOf, (*Model).SetRuntimeClasses)},
		{"priority classes", all.Scheduling().V1().PriorityClasses().Informer(), nil, relistHandler(w, all.Scheduling().V1().PriorityClasses().Lister().List, namesOf, (*Model).SetPriorityClasses)},
		{"the priority class of buffers", all.Scheduling().V1().PriorityClasses().Informer(), nil, relistHandler(w, all.Scheduling().V1().PriorityClasses().Lister().List, bufferClassOf, setBufferClass)},
	} {
		if v.transform != nil {
			if err := v.informer.SetTransform(v.transform); err != nil {
				return nil, nil, fmt.Errorf("watching %s: %w", v.what, err)
			}
		}
		registration, err := v.informer.AddEventHandler(v.handler)
		if err != nil {
			return nil, nil, fmt.Errorf("watching %s: %w", v.what, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	all.StartWithContext(ctx)
	admitted.StartWithContext(ctx)
	return synced, func() { all.Shutdown(); admitted.Shutdown() }, nil
}

func nodeHandler(w *Watcher) cache.ResourceEventHandler {
	return handler(func(m *Model, n *trimmed[Node]) { m.SetNode(n.counts) },
		func(m *Model, n *trimmed[Node]) { m.DeleteNode(n.Name) }, w)
}

func podHandler(w *Watcher) cache.ResourceEventHandler {
	return handler(func(m *Model, p *trimmed[Pod]) { m.SetPod(p.counts) },
		func(m *Model, p *trimmed[Pod]) { m.DeletePod(p.UID) }, w)
}

func (w *Watcher) setNamespaces(m *Model, enforces map[string]bool) {
	m.SetAdmittedNamespaces(enforces)
	w.warnNotEnforced(m)
}

// enforcing returns whether each admitted namespace enforces level restricted. Without it,
// the agent's token allows to create Pods that take over a node.
func enforcing(list []*corev1.Namespace) map[string]bool {
	out := map[string]bool{}
	for _, n := range list {
		if n.DeletionTimestamp == nil {
			out[n.Name] = n.Labels[v1alpha1.LabelPodSecurity] == v1alpha1.PodSecurityRestricted
		}
	}
	return out
}

// warnNotEnforced logs a change of the namespaces that do not enforce it.
func (w *Watcher) warnNotEnforced(m *Model) {
	metricNotEnforced.Set(float64(len(m.notEnforced)))
	if slices.Equal(w.notEnforced, m.notEnforced) {
		return
	}
	w.notEnforced = m.notEnforced
	if len(m.notEnforced) == 0 {
		log.Log.WithName("capacity").Info("All admitted namespaces enforce Pod Security")
		return
	}
	log.Log.WithName("capacity").Info("Admitted namespaces do not enforce Pod Security: run `kubectl vdi admit` for each of them",
		"namespaces", strings.Join(m.notEnforced, ","), "level", v1alpha1.PodSecurityRestricted)
}

// trimmed is what an informer keeps of an object: its identity, and the part that the model
// needs. A Pod has kilobytes, and a member tens of thousands of Pods.
type trimmed[T any] struct {
	metav1.ObjectMeta
	counts T
}

// trim returns a transformation that reduces an object to its identity and what read
// returns.
func trim[K metav1.Object, T any](read func(K) T) cache.TransformFunc {
	return func(in any) (any, error) {
		o, ok := in.(K)
		if !ok {
			return in, nil // trimmed already
		}
		identity := metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
		return &trimmed[T]{identity, read(o)}, nil
	}
}

// handler applies each event of a kind to the model.
func handler[T any](set, remove func(*Model, T), w *Watcher) cache.ResourceEventHandler {
	apply := func(do func(*Model, T), o any) {
		if typed, ok := o.(T); ok {
			w.update(func(m *Model) { do(m, typed) })
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { apply(set, o) },
		UpdateFunc: func(_, o any) { apply(set, o) },
		DeleteFunc: func(o any) { apply(remove, deletedObject(o)) },
	}
}

// relistHandler reads all objects of a small kind at each event. A lister reads memory: it
// fails only because of a bug, which is logged.
func relistHandler[T, C any](w *Watcher, list func(labels.Selector) ([]T, error), read func([]T) C, set func(*Model, C)) cache.ResourceEventHandler {
	relist := func(m *Model, _ any) {
		all, err := list(labels.Everything())
		if err != nil {
			utilruntime.HandleError(err)
		}
		set(m, read(all))
	}
	return handler(relist, relist, w)
}
