package capacity

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The size of the member of the benchmarks.
const (
	manyNodes = 5_000
	manyPods  = 50_000
	// mostMemory is the limit for an agent of such a member.
	mostMemory = 512 << 20
)

// BenchmarkMember watches a large member as the agent does: objects as an API
// server sends them pass the informers, their transformations, and the model. It
// reports the live heap, in total and per Pod and node, and measures the change
// of a decoded Pod.
func BenchmarkMember(b *testing.B) {
	before := liveHeap()
	w := NewWatcher(Options{})
	w.SetTemplates(nil)
	w.update(func(m *Model) {
		m.SetIngressClasses(Classes{Default: true})
		m.SetTemplates([]*requirements{desk()})
	})
	inform(b, &corev1.Node{}, trim(NodeOf), nodeHandler(w), manyNodes, func(i int) apiruntime.Object { return realNode(i) })
	nodesOnly := liveHeap()
	pods := inform(b, &corev1.Pod{}, trim(PodOf), podHandler(w), manyPods, func(i int) apiruntime.Object { return realPod(i) })
	w.update(func(m *Model) { w.synced = true })
	w.publish()
	after := liveHeap()
	if n := len(w.model.pods); n != manyPods {
		b.Fatalf("the model has %d Pods", n)
	}
	if after-before > mostMemory {
		b.Fatalf("%d MiB are live", (after-before)>>20)
	}

	// The Pod alternates between two nodes.
	versions := []*corev1.Pod{realPod(7), realPod(7)}
	versions[1].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("777m")
	handler := podHandler(w)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		now, err := trim(PodOf)(versions[i%2])
		if err == nil {
			err = pods.Update(now)
		}
		if err != nil {
			b.Fatal(err)
		}
		handler.OnUpdate(nil, now)
	}
	b.ReportMetric(float64(after-before)/(1<<20), "MiB-live")
	b.ReportMetric(float64(after-nodesOnly)/manyPods, "B/Pod")
	b.ReportMetric(float64(nodesOnly-before)/manyNodes, "B/node")
	runtime.KeepAlive(w)
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// inform runs an informer until it has n objects, each decoded separately, and returns
// its store.
func inform(b *testing.B, kind apiruntime.Object, trim cache.TransformFunc, handler cache.ResourceEventHandler, n int, object func(int) apiruntime.Object) cache.Store {
	b.Helper()
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFake()
			go func() {
				for i := range n {
					w.Add(object(i))
				}
			}()
			return w, nil
		},
	}, withoutWatchList{})
	informer := cache.NewSharedIndexInformer(source, kind, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(trim); err != nil {
		b.Fatal(err)
	}
	seen := make(chan struct{}, n)
	for _, h := range []cache.ResourceEventHandler{handler, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { seen <- struct{}{} }}} {
		if _, err := informer.AddEventHandler(h); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	go informer.RunWithContext(ctx)
	for i := range n {
		select {
		case <-seen:
		case <-time.After(time.Minute):
			b.Fatalf("%d objects of %d came", i, n)
		}
	}
	return informer.GetStore()
}

// withoutWatchList delivers the objects as single events.
type withoutWatchList struct{}

// IsWatchListSemanticsUnSupported reports that to the informer.
func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// realNode returns a node as in a cloud: labels, annotations, conditions, the 50
// images that a kubelet lists, by tag and by digest, and managed fields.
func realNode(i int) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.UID, n.ResourceVersion = fmt.Sprint("node-", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), "1234567"
	n.Labels, n.Annotations = pairs("node.example.com/label", 25), pairs("node.example.com/annotation", 15)
	n.ManagedFields = managed()
	n.Spec.ProviderID = fmt.Sprint("cloud://zone/instance-", i)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("900Gi"), corev1.ResourcePods: resource.MustParse("110"), gpu: resource.MustParse("4")}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Message: "a message of the kubelet"})
	}
	for image := range 50 {
		name := fmt.Sprintf("registry.example.com/team-%d/product/image-%d", image%7, image+i%3)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 30, Names: []string{
			fmt.Sprintf("%s:v1.%d", name, image), fmt.Sprintf("%s@sha256:%064d", name, image)}})
	}
	return decoded(n, &corev1.Node{})
}

// realPod returns a Pod with two containers, environment and volumes, every tenth
// of a session.
func realPod(i int) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = fmt.Sprint("team-", i%200), fmt.Sprintf("workload-%d-7f9c6d5b8-x%04d", i/50, i)
	p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012d", i)), "7654321"
	p.Labels, p.Annotations, p.ManagedFields = pairs("app.example.com/label", 10), pairs("app.example.com/annotation", 6), managed()
	if i%10 == 0 {
		p.Labels[v1alpha1.LabelSessionUID] = fmt.Sprintf("00000000-0000-4000-a000-%012d", i)
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.Name, UID: p.UID}}
	p.Spec.NodeName = fmt.Sprint("node-", i%manyNodes)
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprint("container-", c), Image: "registry.example.com/team/product/image:v1"}
		for name, value := range pairs("VARIABLE", 20) {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
		}
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(50+i%397), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(1+i%16)<<28, resource.BinarySI)}
		container.VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets"}, {Name: "data", MountPath: "/data"}}
		p.Spec.Containers = append(p.Spec.Containers, container)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: container.Name, Image: container.Image,
			ImageID: "registry.example.com/team/product/image@sha256:0123456789", ContainerID: fmt.Sprintf("containerd://%064d", i)})
	}
	for name := range pairs("volume", 5) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}})
	}
	p.Status.Phase = corev1.PodRunning
	return decoded(p, &corev1.Pod{})
}

func pairs(prefix string, n int) map[string]string {
	out := make(map[string]string, n)
	for i := range n {
		out[fmt.Sprint(prefix, "-", i)] = fmt.Sprint("the value of ", prefix, " ", i)
	}
	return out
}

func managed() []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{Manager: "kubelet", Operation: "Update", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 2000))}
	return []metav1.ManagedFieldsEntry{entry, entry}
}

// decoded returns an object as received: it shares no string with others.
func decoded[T interface{ Marshal() ([]byte, error) }, O interface {
	Unmarshal([]byte) error
}](in T, out O) O {
	wire, err := in.Marshal()
	if err == nil {
		err = out.Unmarshal(wire)
	}
	if err != nil {
		panic(err) // the object can't be written: a mistake in the benchmark
	}
	return out
}
