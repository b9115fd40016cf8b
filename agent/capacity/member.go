package capacity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=nodes;pods;namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=list;watch

// watchMember starts informers of everything that counts but assignments. It returns
// whether each has synced, and a function that waits for their end once the context has
// ended.
func (w *Watcher) watchMember(ctx context.Context) (synced []cache.InformerSynced, stop func(), err error) {
	all := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTransform(trimObject))
	admitted := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTransform(trimObject),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.SelectorFromSet(labels.Set{v1alpha1.LabelAdmitSessions: "true"}).String()
		}))
	for _, v := range []struct {
		what      string
		informer  cache.SharedIndexInformer
		transform cache.TransformFunc
		handler   cache.ResourceEventHandler
	}{
		{"nodes", all.Core().V1().Nodes().Informer(), trimNode, nodeHandler(w)},
		{"pods", all.Core().V1().Pods().Informer(), trimPod, podHandler(w)},
		{"namespaces", admitted.Core().V1().Namespaces().Informer(), nil, w.namespaceHandler(admitted)},
		{"storage classes", all.Storage().V1().StorageClasses().Informer(), nil, w.storageClassHandler(all)},
		{"ingress classes", all.Networking().V1().IngressClasses().Informer(), nil, w.ingressClassHandler(all)},
		{"runtime classes", all.Node().V1().RuntimeClasses().Informer(), nil, w.runtimeClassHandler(all)},
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

// Objects of the smaller kinds are few and seldom change: each change reads all of them.

func (w *Watcher) namespaceHandler(f informers.SharedInformerFactory) cache.ResourceEventHandler {
	lister := f.Core().V1().Namespaces().Lister()
	return always(w, func(m *Model) error {
		list, err := lister.List(labels.Everything())
		m.SetAdmittedNamespaces(enforcing(list))
		w.noteEnforced(m)
		return err
	})
}

func (w *Watcher) storageClassHandler(f informers.SharedInformerFactory) cache.ResourceEventHandler {
	lister := f.Storage().V1().StorageClasses().Lister()
	return always(w, func(m *Model) error {
		list, err := lister.List(labels.Everything())
		m.SetStorageClasses(storageClassesOf(list))
		return err
	})
}

func (w *Watcher) ingressClassHandler(f informers.SharedInformerFactory) cache.ResourceEventHandler {
	lister := f.Networking().V1().IngressClasses().Lister()
	return always(w, func(m *Model) error {
		list, err := lister.List(labels.Everything())
		m.SetIngressClasses(ingressClassesOf(list))
		return err
	})
}

func (w *Watcher) runtimeClassHandler(f informers.SharedInformerFactory) cache.ResourceEventHandler {
	lister := f.Node().V1().RuntimeClasses().Lister()
	return always(w, func(m *Model) error {
		list, err := lister.List(labels.Everything())
		m.SetRuntimeClasses(runtimeClassesOf(list))
		return err
	})
}
