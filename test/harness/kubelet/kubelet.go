package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Options configures the kubelets of a member.
type Options struct {
	Config *rest.Config
	// Member is the member's name, Log the path of its log of containers.
	Member string
	Log    string
	// Guard is the executable of GuardContainer and GateContainer.
	Guard string
	// Second is how long one second of a Pod's spec takes; default 1 s.
	Second time.Duration
	// StartDelay is the time until a container opens its ports, StopDelay the time until it
	// ends after SIGTERM; both default to 0.
	StartDelay, StopDelay time.Duration
}

type kubelet struct {
	options Options
	client  kubernetes.Interface
	loop    *loop
	writer  *writer
	network *network
	log     *Log

	// The loop owns the fields below.
	pods map[types.UID]*pod
	// lost are the nodes that LoseNode disconnected: they receive no events of their Pods and
	// report nothing, but their containers run on. missed holds the latest undelivered event
	// of each Pod; nil means that it was deleted.
	lost   map[string]bool
	missed map[types.UID]*corev1.Pod
}

// Run simulates the kubelets until ctx ends, which ends all containers too.
func Run(ctx context.Context, options Options) error {
	if options.Second == 0 {
		options.Second = time.Second
	}
	client, err := kubernetes.NewForConfig(options.Config)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	network, err := openNetwork()
	if err != nil {
		return err
	}
	log, err := OpenLog(options.Log, options.Member)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.Write(Record{What: Boot}); err != nil {
		return err
	}
	k := &kubelet{
		options: options, client: client, loop: newLoop(), writer: newWriter(client), network: network, log: log,
		pods: map[types.UID]*pod{}, lost: map[string]bool{}, missed: map[types.UID]*corev1.Pod{},
	}
	var group sync.WaitGroup
	group.Go(func() { k.loop.run(ctx) })
	group.Go(func() { k.writer.run(ctx) })
	group.Go(func() { k.follow(ctx) })
	group.Wait()
	return nil
}

// follow watches nodes and the Pods that are bound to one.
func (k *kubelet) follow(ctx context.Context) {
	core := k.client.CoreV1().RESTClient()
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "")
	var group sync.WaitGroup
	group.Go(func() {
		follow(ctx, cache.NewListWatchFromClient(core, "nodes", "", fields.Everything()),
			func(all []runtime.Object) {
				for _, node := range all {
					k.loop.do(func() { k.node(node.(*corev1.Node)) })
				}
			},
			func(_ watch.EventType, object runtime.Object) { k.loop.do(func() { k.node(object.(*corev1.Node)) }) })
	})
	group.Go(func() {
		follow(ctx, cache.NewListWatchFromClient(core, "pods", "", bound),
			func(all []runtime.Object) { k.loop.do(func() { k.all(all) }) },
			func(event watch.EventType, object runtime.Object) {
				k.loop.do(func() { k.observe(object.(*corev1.Pod), event == watch.Deleted) })
			})
	})
	group.Wait()
}

// all handles the list of all Pods.
func (k *kubelet) all(objects []runtime.Object) {
	there := make(map[types.UID]bool, len(objects))
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		there[pod.UID] = true
		// If etcd was restored to an earlier state, a written status may be lost.
		k.writer.forget(pod.UID)
		k.observe(pod, false)
	}
	for uid, pod := range k.pods {
		if !there[uid] {
			k.observe(pod.object, true)
		}
	}
}

// observe handles an event of a Pod; gone means that it was deleted.
func (k *kubelet) observe(object *corev1.Pod, gone bool) {
	// LoseNode marks Pods too: the event of their node may come later than theirs.
	if _, marked := object.Annotations[lostAnnotation]; marked || k.lost[object.Spec.NodeName] {
		k.missed[object.UID] = object
		if gone {
			k.missed[object.UID] = nil
		}
		return
	}
	p := k.pods[object.UID]
	switch {
	case p == nil && gone:
	case p == nil:
		p = k.newPod(object)
		k.pods[object.UID] = p
		p.advance()
	case gone:
		p.handleDeletion()
	default:
		p.update(object)
	}
}

// node handles a node's object.
func (k *kubelet) node(node *corev1.Node) {
	_, lost := node.Annotations[lostAnnotation]
	if lost == k.lost[node.Name] {
		return
	}
	k.lost[node.Name] = lost
	if lost {
		return
	}
	for uid, object := range maps.Clone(k.missed) {
		p := k.pods[uid]
		switch {
		case object != nil && object.Spec.NodeName == node.Name:
			delete(k.missed, uid)
			k.observe(object, false) // unless it is marked still
		case object == nil && p == nil:
			delete(k.missed, uid)
		case object == nil && p.object.Spec.NodeName == node.Name:
			delete(k.missed, uid)
			k.observe(p.object, true)
		}
	}
	for _, p := range k.pods {
		if p.object.Spec.NodeName == node.Name {
			k.writer.forget(p.object.UID) // others have written meanwhile
			p.report()
		}
	}
}

// drop forgets a Pod that has ended and whose object is deleted.
func (k *kubelet) drop(p *pod) {
	delete(k.pods, p.object.UID)
	k.writer.forget(p.object.UID)
}

func (k *kubelet) seconds(n int64) time.Duration { return time.Duration(n) * k.options.Second }

func (c *container) behavior() behavior {
	o := c.pod.k.options
	return behave(c.pod.object, c.spec.Image, behavior{listens: o.StartDelay, stops: o.StopDelay})
}

// record writes a record of a container to the log. If it cannot, the process exits, and all
// of its nodes with it: nothing may run that is not in the log.
func (k *kubelet) record(c *container, r Record) {
	object := c.pod.object
	r.Node, r.PodUID, r.Namespace, r.Pod = object.Spec.NodeName, string(object.UID), object.Namespace, object.Name
	r.Container, r.Restart = c.spec.Name, c.restarts
	r.Session, r.Epoch = object.Labels[api.LabelSessionUID], object.Annotations[api.AnnotationEpoch]
	if err := k.log.Write(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (k *kubelet) logError(what string, pod *corev1.Pod, err error) {
	fmt.Fprintf(os.Stderr, "%s of %s/%s: %v\n", what, pod.Namespace, pod.Name, err)
}
