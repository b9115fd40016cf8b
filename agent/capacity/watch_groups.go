package capacity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
)

// This role is bound only where the member has node groups.
// +kubebuilder:rbac:groups=karpenter.sh,roleName=vdi-agent-node-groups,resources=nodepools;nodeclaims,verbs=list;watch
// +kubebuilder:rbac:groups=apps,roleName=vdi-agent-node-groups,resources=daemonsets,verbs=list;watch
// +kubebuilder:rbac:groups="",roleName=vdi-agent-node-groups,namespace=kube-system,resources=configmaps,resourceNames=cluster-autoscaler-status,verbs=get;list;watch

// The objects of Karpenter, and the ConfigMap of cluster-autoscaler.
var (
	nodePools  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

const autoscalerStatus = "cluster-autoscaler-status"

// checkTimeout limits the check whether objects can be read.
const checkTimeout = 20 * time.Second

// source is what states of node groups are determined from.
type source int

const (
	daemonSets source = iota
	karpenter
	clusterAutoscaler

	sources
)

// neededBy reports whether the state of a group depends on the source.
func (s source) neededBy(g *nodegroup.Spec) bool {
	switch s {
	case karpenter:
		return g.KarpenterNodePool != ""
	case clusterAutoscaler:
		return g.ClusterAutoscalerGroup != ""
	}
	return true
}

// groupSource is a source of node groups. Its objects are watched while a declared node group needs them.
type groupSource struct {
	kind  source
	kinds []groupKind
	// set records why the objects can't be read, empty once they are cached.
	set func(g *growth, problem string)

	// of is what the running informers change; nil if none run.
	of   *growth
	stop func()
}

// groupKind is a kind of objects of a source.
type groupKind struct {
	name string
	// check reads one object, and informer returns a new informer.
	check     func(context.Context, metav1.ListOptions) error
	informer  func() cache.SharedIndexInformer
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
}

// groupSources returns the sources of node groups, of which none is watched yet.
func groupSources(w *Watcher) []*groupSource {
	client, objects := w.options.Client, w.options.Objects
	object := func(of schema.GroupVersionResource, transform cache.TransformFunc, handler cache.ResourceEventHandler) groupKind {
		return groupKind{of.Resource, func(ctx context.Context, o metav1.ListOptions) error {
			_, err := objects.Resource(of).List(ctx, o)
			return err
		}, func() cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(objects, of, metav1.NamespaceAll, 0, nil, nil).Informer()
		}, transform, handler}
	}
	byName := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, autoscalerStatus).String()
	}
	return []*groupSource{{
		kind: daemonSets,
		set:  (*growth).SetDaemonSets,
		kinds: []groupKind{{"daemonsets", func(ctx context.Context, o metav1.ListOptions) error {
			_, err := client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, o)
			return err
		}, func() cache.SharedIndexInformer {
			return appsinformers.NewDaemonSetInformer(client, metav1.NamespaceAll, 0, nil)
		}, trim(DaemonSetOf), groupHandler(w,
			func(g *growth, d *trimmed[DaemonSet]) bool { return g.setDaemonSet(d.counts) },
			func(g *growth, d *trimmed[DaemonSet]) { delete(g.daemonSets, d.UID) })}},
	}, {
		kind: karpenter,
		set:  func(g *growth, problem string) { g.SetKarpenter(problem) },
		kinds: []groupKind{
			object(nodePools, trim(nodePoolOf), groupHandler(w,
				func(g *growth, p *trimmed[nodegroup.NodePool]) bool { g.SetNodePool(p.counts); return true },
				func(g *growth, p *trimmed[nodegroup.NodePool]) { g.DeleteNodePool(p.Name) })),
			object(nodeClaims, trim(nodeClaimOf), groupHandler(w,
				func(g *growth, c *trimmed[nodegroup.NodeClaim]) bool { g.SetNodeClaim(c.counts); return true },
				func(g *growth, c *trimmed[nodegroup.NodeClaim]) { g.DeleteNodeClaim(c.Name, time.Now()) })),
		},
	}, {
		kind: clusterAutoscaler,
		set: func(g *growth, problem string) {
			if problem != "" {
				g.setAutoscaler(&nodegroup.AutoscalerStatus{Problem: problem})
			}
		},
		kinds: []groupKind{{"configmaps", func(ctx context.Context, o metav1.ListOptions) error {
			byName(&o)
			_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx, o)
			return err
		}, func() cache.SharedIndexInformer {
			return coreinformers.NewFilteredConfigMapInformer(client, metav1.NamespaceSystem, 0, nil, byName)
		}, trim(nodegroup.AutoscalerStatusOf), groupHandler(w,
			func(g *growth, s *trimmed[*nodegroup.AutoscalerStatus]) bool { return g.setAutoscaler(s.counts) },
			func(g *growth, _ *trimmed[*nodegroup.AutoscalerStatus]) { g.setAutoscaler(nil) })}},
	}}
}

// groupHandler applies each event of a kind to the growth of the model. Set returns whether that is a change.
func groupHandler[T any](w *Watcher, set func(*growth, T) bool, remove func(*growth, T)) cache.ResourceEventHandler {
	return handler(
		func(m *Model, o T) { m.withGroups(func(g *growth) bool { return set(g, o) }) },
		func(m *Model, o T) { m.withGroups(func(g *growth) bool { remove(g, o); return true }) }, w)
}

// nodePoolOf reads a NodePool. One that can't be read adds no node.
func nodePoolOf(u *unstructured.Unstructured) nodegroup.NodePool {
	p, err := nodegroup.NodePoolOf(u.Object)
	if err != nil {
		return nodegroup.NodePool{Name: u.GetName(), Problem: "can't be read: " + err.Error()}
	}
	return p
}

// nodeClaimOf reads a NodeClaim. One that can't be read counts as a node that exists.
func nodeClaimOf(u *unstructured.Unstructured) nodegroup.NodeClaim {
	c, err := nodegroup.NodeClaimOf(u.Object)
	if err != nil {
		return nodegroup.NodeClaim{Name: u.GetName(), NodePool: u.GetLabels()[nodegroup.LabelNodePool], Launched: true, Initialized: true}
	}
	return c
}

// setDaemonSet adds or replaces a DaemonSet, and returns whether that is a change.
func (g *growth) setDaemonSet(d DaemonSet) bool {
	if known, ok := g.daemonSets[d.UID]; ok && reflect.DeepEqual(known, d) {
		return false
	}
	g.daemonSets[d.UID] = d
	return true
}

// setAutoscaler replaces the status of cluster-autoscaler, and returns whether more than its time has changed.
func (g *growth) setAutoscaler(s *nodegroup.AutoscalerStatus) bool {
	before := g.autoscaler
	g.autoscaler = s
	g.SetAutoscaler(s)
	return before == nil || s == nil || before.Problem != s.Problem || !reflect.DeepEqual(before.Groups, s.Groups)
}

// followGroups starts and stops the sources, so that those run which the declared node groups need.
func followGroups(ctx context.Context, w *Watcher, sources []*groupSource) (growing bool) {
	w.mu.Lock()
	g := w.model.growth
	w.mu.Unlock()
	for _, s := range sources {
		needed := g != nil && slices.ContainsFunc(g.declared, func(d nodegroup.Spec) bool { return s.kind.neededBy(&d) })
		if s.of != nil && (!needed || s.of != g) {
			s.stop()
			s.of = nil
			w.update(func(m *Model) { m.withGroups(func(g *growth) bool { g.read[s.kind] = false; return true }) })
		}
		if needed && s.of == nil {
			s.start(ctx, w, g)
		}
	}
	return g != nil
}

// stopGroups stops all sources. Their context has ended.
func stopGroups(sources []*groupSource) {
	for _, s := range sources {
		if s.of != nil {
			s.stop()
		}
	}
}

// start runs the informers of a source for the growth of the model, until stop.
func (s *groupSource) start(ctx context.Context, w *Watcher, g *growth) {
	ctx, cancel := context.WithCancel(ctx)
	wait := concurrent.Begin(func() error {
		s.run(ctx, w)
		return nil
	})
	s.of, s.stop = g, func() {
		cancel()
		if err := wait(); err != nil {
			log.Log.WithName("capacity").Error(err, "Watching a source of node groups")
		}
	}
}

// run watches the source until the context ends. While it can't be read, that is tried again and again.
func (s *groupSource) run(ctx context.Context, w *Watcher) {
	for ctx.Err() == nil {
		problem := s.watch(ctx, w)
		if ctx.Err() != nil {
			return
		}
		s.report(w, problem)
		select {
		case <-ctx.Done():
		case <-time.After(w.options.Recheck):
		}
	}
}

// report records why the source can't be read.
func (s *groupSource) report(w *Watcher, problem string) {
	w.update(func(m *Model) {
		m.withGroups(func(g *growth) bool { g.read[s.kind] = true; s.set(g, problem); return true })
	})
}

// watch runs the informers of a source until the context ends, or its objects can't be read (any more). It
// returns why.
func (s *groupSource) watch(ctx context.Context, w *Watcher) (problem string) {
	for _, k := range s.kinds {
		check, cancel := context.WithTimeout(ctx, checkTimeout)
		err := k.check(check, metav1.ListOptions{Limit: 1})
		if cancel(); err != nil {
			return k.problem(err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	var forget []func()
	defer func() {
		cancel(nil)
		running.Wait()
		for _, f := range forget {
			f()
		}
	}()
	var synced []cache.InformerSynced
	for _, k := range s.kinds {
		informer := k.informer()
		registration, err := k.prepare(informer, cancel)
		if err != nil {
			return fmt.Sprintf("watching %s: %v", k.name, err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
		synced = append(synced, registration.HasSynced)
		forget = append(forget, func() { k.forget(informer) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		s.report(w, "")
	}
	<-ctx.Done()
	return context.Cause(ctx).Error()
}

// prepare adds the handlers to an informer. The kind's removal, or that of the permission, ends it.
func (k *groupKind) prepare(informer cache.SharedIndexInformer, end context.CancelCauseFunc) (cache.ResourceEventHandlerRegistration, error) {
	if err := informer.SetTransform(k.transform); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			end(fmt.Errorf("%s", k.problem(err)))
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, err
	}
	return informer.AddEventHandler(k.handler)
}

// forget removes what an informer that has ended has cached: the next one sees what is there then.
func (k *groupKind) forget(informer cache.SharedIndexInformer) {
	for _, o := range informer.GetStore().List() {
		k.handler.OnDelete(o)
	}
}

// problem explains why the objects of a kind can't be read.
func (k *groupKind) problem(err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the member does not serve %s: is Karpenter installed?", k.name)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the agent may not list and watch %s: set nodeGroups.enabled of the agent's chart", k.name)
	}
	return fmt.Sprintf("the agent can't list %s: %v", k.name, err)
}
