package buffer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Pause is the subcommand of the agent that the Pods run.
const Pause = "pause"

// hashAnnotation has the hash of what the agent last wrote, so that fields that it no longer sets are removed.
const hashAnnotation = "vdi.kasm.io/buffer-hash"

// pauseUser is the user of the agent's image.
const pauseUser = 65532

// maxUnavailable is the share of the Pods that are replaced at once when the template or the image changes.
const maxUnavailable = "25%"

// selector selects the Deployments of all buffers.
func selector() labels.Selector {
	managed := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	of, err := labels.Parse(v1alpha1.LabelBuffer)
	if err != nil {
		panic(err) // a constant
	}
	requirements, _ := of.Requirements()
	return managed.Add(requirements...)
}

// nameOf returns the name of a buffer's Deployment.
func nameOf(template string) string { return "vdi-buffer-" + template }

// deployment returns the Deployment of a buffer.
func deployment(b *capacity.Buffer, class *capacity.BufferClass, o *Options) (*appsv1.Deployment, error) {
	own := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelBuffer: b.Template}
	pod, err := podSpec(b.Requirements, o)
	if err != nil {
		return nil, err
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: nameOf(b.Template), Labels: own,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass", Name: v1alpha1.BufferPriorityClass, UID: class.UID,
			}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             ptr.To(min(b.Slots, b.Fits)),
			RevisionHistoryLimit: ptr.To[int32](0),
			Selector:             &metav1.LabelSelector{MatchLabels: own},
			// Never more Pods than replicas: the surplus would add nodes.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromString(maxUnavailable)),
			}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: pod},
		},
	}
	hash, err := hashOf(d)
	if err != nil {
		return nil, err
	}
	d.Annotations = map[string]string{hashAnnotation: hash}
	return d, nil
}

func podSpec(r *fleetv1.TemplateRequirements, o *Options) (corev1.PodSpec, error) {
	resources, err := convert.ResourcesFromWire(r.GetResources())
	if err != nil {
		return corev1.PodSpec{}, err
	}
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: Pause, Image: o.Image, Args: []string{Pause},
			// As a desktop has them, extended resources included.
			Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources.DeepCopy()},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		PriorityClassName: v1alpha1.BufferPriorityClass,
		NodeSelector:      r.GetNodeSelector(),
		Tolerations:       convert.TolerationsFromWire(r.GetTolerations()),
		// A desktop must not wait for it.
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](pauseUser), RunAsGroup: ptr.To[int64](pauseUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if name := r.GetRuntimeClassName(); name != "" {
		spec.RuntimeClassName = &name
	}
	for _, name := range o.PullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return spec, nil
}

// hashOf returns the hash of what the agent sets, replicas apart.
func hashOf(d *appsv1.Deployment) (string, error) {
	set := d.Spec.DeepCopy()
	set.Replicas = nil
	raw, err := json.Marshal(set)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// differs reports whether a Deployment is not as it is to be. What the API server has set besides does not count.
func differs(got, want *appsv1.Deployment) bool {
	return got.Annotations[hashAnnotation] != want.Annotations[hashAnnotation] ||
		!equality.Semantic.DeepDerivative(want.Labels, got.Labels) ||
		!equality.Semantic.DeepEqual(want.OwnerReferences, got.OwnerReferences) ||
		!equality.Semantic.DeepDerivative(want.Spec, got.Spec)
}

// revised returns a Deployment with what it is to be, and with what others added to its metadata.
func revised(got, want *appsv1.Deployment) *appsv1.Deployment {
	out := got.DeepCopy()
	out.Spec, out.OwnerReferences = want.Spec, want.OwnerReferences
	for key, value := range want.Labels {
		out.Labels = with(out.Labels, key, value)
	}
	out.Annotations = with(out.Annotations, hashAnnotation, want.Annotations[hashAnnotation])
	return out
}

func with(in map[string]string, key, value string) map[string]string {
	if in == nil {
		in = map[string]string{}
	}
	in[key] = value
	return in
}
