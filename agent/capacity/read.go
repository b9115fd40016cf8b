package capacity

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// PodOf reads a Pod.
func PodOf(p *corev1.Pod) Pod {
	out := Pod{
		UID:       p.UID,
		Session:   types.UID(p.Labels[v1alpha1.LabelSessionUID]),
		Node:      p.Spec.NodeName,
		Resources: PodResources(&p.Spec),
		Done:      observe.Ended(p) || keepsSlotFree(p),
		Buffer:    bufferOf(p),
		Daemon:    isDaemon(p),
	}
	if out.Node == "" {
		out.NodeSelector, out.Tolerations = p.Spec.NodeSelector, p.Spec.Tolerations
	}
	if out.Node == "" || out.Session != "" {
		out.Times = timesOf(p)
	}
	return out
}

// keepsSlotFree reports whether a Pod only keeps a slot free: every desktop preempts it, so that it uses nothing.
// One whose priority is not negative would stay.
func keepsSlotFree(p *corev1.Pod) bool {
	_, labeled := p.Labels[v1alpha1.LabelBuffer]
	return labeled && p.Spec.Priority != nil && *p.Spec.Priority < 0
}

// bufferOf returns the template of a buffer of the agent that a Pod belongs to.
func bufferOf(p *corev1.Pod) string {
	if p.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		return ""
	}
	return p.Labels[v1alpha1.LabelBuffer]
}

func isDaemon(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

func timesOf(p *corev1.Pod) *PodTimes {
	t := &PodTimes{
		Key:     types.NamespacedName{Namespace: p.Namespace, Name: p.Name},
		Created: p.CreationTimestamp.Time, Bound: nodegroup.BoundAt(p),
	}
	c := observe.PodCondition(p, corev1.PodScheduled)
	if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		t.Unschedulable = c.LastTransitionTime.Time
	}
	if p.Spec.NodeName == "" && isDaemon(p) {
		t.Node = onlyNode(p.Spec.Affinity)
	}
	return t
}

// onlyNode returns the node that a DaemonSet's controller has chosen for a Pod.
func onlyNode(a *corev1.Affinity) string {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// AssignmentOf reads an assignment.
func AssignmentOf(a *v1alpha1.SessionAssignment) Assignment {
	return Assignment{
		UID:       a.UID,
		Session:   a.Spec.Session.UID,
		Template:  a.Spec.Template,
		Revision:  a.Spec.TemplateRevision,
		Resources: ResourcesOf(a.Spec.Desktop.Resources),
		PodSpec: PodSpec{
			NodeSelector: a.Spec.Desktop.NodeSelector,
			Tolerations:  a.Spec.Desktop.Tolerations,
			RuntimeClass: a.Spec.Desktop.RuntimeClassName,
			Home:         a.Spec.Desktop.Home.Mode == v1alpha1.HomePerSession || a.Spec.Desktop.Home.Mode == v1alpha1.HomePerUser,
			StorageClass: a.Spec.Desktop.Home.StorageClassName,
		},
		Idle: idle(a) || a.DeletionTimestamp != nil || a.Status.State == v1alpha1.AssignmentStopping,
	}
}

// idle reports whether no Pod will be created for an assignment that is not being deleted.
// An expired time limit counts only if the status is of this spec: an assignment that was
// just extended or resumed is about to run. A failure names its attempt.
func idle(a *v1alpha1.SessionAssignment) bool {
	current := a.Status.ObservedGeneration >= a.Generation
	return a.Idle() && (current || a.Spec.RunState == v1alpha1.ModeSuspended || a.FailedPermanently())
}

// Annotations with value "true" by which a class is the default of its kind.
const (
	defaultStorageClass     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// classesOf reads the names of classes, and whether one is the default.
func classesOf[T metav1.Object](list []T, defaults ...string) Classes {
	out := Classes{Names: map[string]bool{}}
	for _, o := range list {
		out.Names[o.GetName()] = true
		for _, annotation := range defaults {
			out.Default = out.Default || o.GetAnnotations()[annotation] == "true"
		}
	}
	return out
}

// storageClassesOf also reads the topologies. Of several default classes Kubernetes uses
// the newest, and among equals the first by name.
func storageClassesOf(list []*storagev1.StorageClass) Classes {
	out := classesOf(list, defaultStorageClass, defaultStorageClassBeta)
	out.Topologies = map[string][]corev1.TopologySelectorTerm{}
	setTopologies := func(name string, c *storagev1.StorageClass) {
		if len(c.AllowedTopologies) > 0 {
			out.Topologies[name] = c.AllowedTopologies
		}
	}
	var defaultClass *storagev1.StorageClass
	for _, c := range list {
		setTopologies(c.Name, c)
		isDefault := c.Annotations[defaultStorageClass] == "true" || c.Annotations[defaultStorageClassBeta] == "true"
		if isDefault && (defaultClass == nil || cmp.Or(c.CreationTimestamp.Compare(defaultClass.CreationTimestamp.Time), cmp.Compare(defaultClass.Name, c.Name)) > 0) {
			defaultClass = c
		}
	}
	if defaultClass != nil {
		setTopologies("", defaultClass)
	}
	return out
}

func ingressClassesOf(list []*networkingv1.IngressClass) Classes {
	return classesOf(list, networkingv1.AnnotationIsDefaultIngressClass)
}

func namesOf(list []*schedulingv1.PriorityClass) sets.Set[string] {
	out := sets.Set[string]{}
	for _, c := range list {
		out.Insert(c.Name)
	}
	return out
}

// bufferClassOf returns the PriorityClass of the Pods of buffers, nil if the member has none.
func bufferClassOf(list []*schedulingv1.PriorityClass) *BufferClass {
	for _, c := range list {
		if c.Name == v1alpha1.BufferPriorityClass {
			return &BufferClass{UID: c.UID, Value: c.Value}
		}
	}
	return nil
}

func runtimeClassesOf(list []*nodev1.RuntimeClass) map[string]RuntimeClass {
	out := map[string]RuntimeClass{}
	for _, c := range list {
		var r RuntimeClass
		if c.Scheduling != nil {
			r = RuntimeClass{NodeSelector: c.Scheduling.NodeSelector, Tolerations: c.Scheduling.Tolerations}
		}
		if c.Overhead != nil {
			r.Overhead = ResourcesOf(c.Overhead.PodFixed)
		}
		out[c.Name] = r
	}
	return out
}
