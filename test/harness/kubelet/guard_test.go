package kubelet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestVariablesAreExpandedAsInAPod(t *testing.T) {
	env := []variable{{"POD_IP", "127.1.1.1"}, {"PORT", "8"}, {"PORT", "9"}, {"EMPTY", ""}}
	for s, want := range map[string]string{
		"--address=$(POD_IP):$(PORT)": "--address=127.1.1.1:9", // the last one counts
		"$(EMPTY)x":                   "x",
		"$(UNKNOWN)":                  "$(UNKNOWN)",
		"$(UNKNOWN)$(PORT)":           "$(UNKNOWN)9",
		"$$(PORT)":                    "$(PORT)",
		"$PORT":                       "$PORT",
		"$(PORT":                      "$(PORT",
		"$":                           "$",
		"":                            "",
	} {
		if got := expand(s, env); got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
	}
}

func TestFieldsOfThePod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", Namespace: "ns", UID: "u", Labels: map[string]string{"a.b/c": "label"}, Annotations: map[string]string{"d": "note"},
		},
		Spec: corev1.PodSpec{NodeName: "node", ServiceAccountName: "account"},
	}
	got := map[string]string{}
	paths := []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['a.b/c']", "metadata.annotations['d']",
		"metadata.annotations['none']", "spec.nodeName", "spec.serviceAccountName", "status.podIP", "status.hostIP",
	}
	for _, path := range paths {
		value, err := field(pod, path, "127.1.1.1", "127.1.0.1")
		if err != nil {
			t.Error(err)
		}
		got[path] = value
	}
	want := map[string]string{
		"metadata.name": "n", "metadata.namespace": "ns", "metadata.uid": "u", "metadata.labels['a.b/c']": "label",
		"metadata.annotations['d']": "note", "metadata.annotations['none']": "", "spec.nodeName": "node",
		"spec.serviceAccountName": "account", "status.podIP": "127.1.1.1", "status.hostIP": "127.1.0.1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := field(pod, "status.phase", "", ""); err == nil {
		t.Error("a field that the downward API does not have was read")
	}
}

func TestImagesAndAnnotationsSetTheBehaviorOfAContainer(t *testing.T) {
	ordinary := behavior{listens: time.Second, stops: time.Minute}
	with := func(change func(*behavior)) behavior {
		b := ordinary
		change(&b)
		return b
	}
	for image, want := range map[string]behavior{
		"registry.example/desktop:1":    ordinary,
		"slow.invalid/desktop":          with(func(b *behavior) { b.listens = slowStart }),
		"slow.invalid/desktop:12s":      with(func(b *behavior) { b.listens = 12 * time.Second }),
		"broken.invalid/desktop:1":      with(func(b *behavior) { b.unpulled = true }),
		"crash.invalid/desktop:1":       with(func(b *behavior) { b.crashes = crashAfter }),
		"loopback.invalid/desktop:1":    with(func(b *behavior) { b.local = true }),
		"not-slow.invalid/desktop:12s":  ordinary,
		"registry.example/slow.invalid": ordinary,
	} {
		if got := behave(&corev1.Pod{}, image, ordinary); got != want {
			t.Errorf("%s: %+v, want %+v", image, got, want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		startDelayAnnotation: "3m", stopDelayAnnotation: "4m",
	}}}
	if got := behave(pod, "slow.invalid/desktop:12s", ordinary); got.listens != 3*time.Minute || got.stops != 4*time.Minute {
		t.Errorf("%+v", got)
	}
}

// Each Pod has its own address, across kubelets too, and a released address is not assigned
// again soon.
func TestAddressesAreTakenOnce(t *testing.T) {
	one, err := openNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer one.lock.Close()
	other, err := openNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer other.lock.Close()
	first := one.take()
	one.release(first)
	seen := map[string]bool{first.String(): true}
	for range 3000 {
		for _, n := range []*network{one, other} {
			address := n.take()
			if seen[address.String()] || address == n.host() || !address.IsLoopback() {
				t.Fatalf("%s was assigned twice, or is the host's", address)
			}
			seen[address.String()] = true
		}
	}
}
