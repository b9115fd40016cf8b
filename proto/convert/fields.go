package convert

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func durationToWire(d v1alpha1.Duration) *durationpb.Duration {
	v, ok := d.Value()
	if !ok {
		return nil
	}
	return durationpb.New(v)
}

func durationFromWire(field string, w *durationpb.Duration) (v1alpha1.Duration, error) {
	if w == nil {
		return "", nil
	}
	if err := w.CheckValid(); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	v := w.AsDuration()
	if v < 0 {
		return "", fmt.Errorf("%s: %s is negative", field, v)
	}
	return canonicalDuration(v), nil
}

// canonicalDuration returns the text that both ends write for a duration, in
// milliseconds, which is the resolution of the API's pattern.
func canonicalDuration(v time.Duration) v1alpha1.Duration {
	return v1alpha1.DurationOf(v.Round(time.Millisecond))
}

// ResourcesToWire converts quantities to text as Kubernetes does.
func ResourcesToWire(list corev1.ResourceList) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]string, len(list))
	for name, q := range list {
		out[string(name)] = canonicalQuantity(q)
	}
	return out
}

// ResourcesFromWire parses quantities; the error begins with the resource's name in brackets.
func ResourcesFromWire(w map[string]string) (corev1.ResourceList, error) {
	if len(w) == 0 {
		return nil, nil
	}
	out := make(corev1.ResourceList, len(w))
	for name, text := range w {
		q, err := parseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("[%s]: %w", name, err)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

// canonicalQuantity returns a quantity's canonical text, whatever text it was parsed from.
// A larger one than an int64 holds becomes the largest, as with Kubernetes' binary units:
// of a decimal one, apimachinery loses the suffix beyond E (1000E would become 1).
func canonicalQuantity(q resource.Quantity) string {
	if tooLarge(&q) {
		q = *resource.NewQuantity(math.MaxInt64, q.Format)
	}
	copied := q.DeepCopy()
	text, suffix := copied.CanonicalizeBytes(make([]byte, 0, 16))
	return string(text) + string(suffix)
}

// TolerationsToWire converts tolerations of node taints.
func TolerationsToWire(list []corev1.Toleration) []*fleetv1.Toleration {
	out := make([]*fleetv1.Toleration, 0, len(list))
	for _, t := range list {
		out = append(out, &fleetv1.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect),
			TolerationSeconds: t.TolerationSeconds,
		})
	}
	return nilIfEmpty(out)
}

// TolerationsFromWire converts tolerations of node taints from their wire type.
func TolerationsFromWire(w []*fleetv1.Toleration) []corev1.Toleration {
	out := make([]corev1.Toleration, 0, len(w))
	for _, t := range w {
		out = append(out, corev1.Toleration{
			Key: t.GetKey(), Operator: corev1.TolerationOperator(t.GetOperator()), Value: t.GetValue(),
			Effect: corev1.TaintEffect(t.GetEffect()), TolerationSeconds: t.TolerationSeconds,
		})
	}
	return nilIfEmpty(out)
}

func envToWire(list []v1alpha1.EnvVar) []*fleetv1.EnvVar {
	out := make([]*fleetv1.EnvVar, 0, len(list))
	for _, e := range list {
		out = append(out, &fleetv1.EnvVar{Name: e.Name, Value: e.Value})
	}
	return nilIfEmpty(out)
}

func envFromWire(w []*fleetv1.EnvVar) []v1alpha1.EnvVar {
	out := make([]v1alpha1.EnvVar, 0, len(w))
	for _, e := range w {
		out = append(out, v1alpha1.EnvVar{Name: e.GetName(), Value: e.GetValue()})
	}
	return nilIfEmpty(out)
}

func secretsToWire(list []corev1.LocalObjectReference) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, s.Name)
	}
	return nilIfEmpty(out)
}

func secretsFromWire(w []string) []corev1.LocalObjectReference {
	out := make([]corev1.LocalObjectReference, 0, len(w))
	for _, name := range w {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return nilIfEmpty(out)
}

func homeToWire(h v1alpha1.AssignedHome) *fleetv1.Home {
	w := &fleetv1.Home{
		Mode: string(h.Mode), ClaimName: h.ClaimName,
		StorageClassName: h.StorageClassName, MountPath: h.MountPath,
		AccessMode: string(h.AccessMode), Retention: string(h.Retention),
		RetentionTime: durationToWire(h.RetentionTime),
	}
	w.Size = quantityToWire(h.Size)
	return w
}

func homeFromWire(w *fleetv1.Home) (v1alpha1.AssignedHome, error) {
	h := v1alpha1.AssignedHome{
		Mode: v1alpha1.HomeMode(w.GetMode()), ClaimName: w.GetClaimName(),
		StorageClassName: w.GetStorageClassName(), MountPath: w.GetMountPath(),
		AccessMode: corev1.PersistentVolumeAccessMode(w.GetAccessMode()), Retention: v1alpha1.Retention(w.GetRetention()),
	}
	var err error
	if h.RetentionTime, err = durationFromWire("retention_time", w.GetRetentionTime()); err != nil {
		return h, err
	}
	h.Size, err = quantityFromWire("size", w.GetSize())
	return h, err
}

// quantityToWire converts a quantity to text as Kubernetes does; nil to an empty one.
func quantityToWire(q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	return canonicalQuantity(*q)
}

func quantityFromWire(field, text string) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := parseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return &q, nil
}

// parseQuantity parses a quantity that is not negative and that an int64 holds.
func parseQuantity(text string) (resource.Quantity, error) {
	if longExponent.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%q: the exponent has more than two digits", text)
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return q, fmt.Errorf("%q: %w", text, err)
	case q.Sign() < 0:
		return q, fmt.Errorf("%s is negative", text)
	case tooLarge(&q):
		return q, fmt.Errorf("%s is more than %d", text, int64(math.MaxInt64))
	}
	return q, nil
}

// longExponent matches exponents for which apimachinery takes minutes to parse or compare a
// quantity.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// tooLarge reports whether an int64 can't hold a quantity. Cmp would compute all its digits.
func tooLarge(q *resource.Quantity) bool { return q.AsApproximateFloat64() > math.MaxInt64 }

// nilIfEmpty returns nil for an empty list: they are the same on the wire and in JSON.
func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
