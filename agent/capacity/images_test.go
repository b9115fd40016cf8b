package capacity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const digest = "sha256:9b2d5f6b0e1f3ab7c9d1f0c7d4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d"

// images returns images as a kubelet lists them: by tag and by digest.
func images(names ...string) []corev1.ContainerImage {
	var out []corev1.ContainerImage
	for _, name := range names {
		out = append(out, corev1.ContainerImage{Names: []string{name, "other.example.com/x@" + digest}, SizeBytes: 1})
	}
	return out
}

func TestFullImageName(t *testing.T) {
	for name, want := range map[string]string{
		"kiosk":                               "docker.io/library/kiosk:latest",
		"kiosk:1.2":                           "docker.io/library/kiosk:1.2",
		"ann/kiosk:1.2":                       "docker.io/ann/kiosk:1.2",
		"docker.io/kiosk":                     "docker.io/library/kiosk:latest",
		"index.docker.io/ann/kiosk":           "docker.io/ann/kiosk:latest",
		"localhost/kiosk":                     "localhost/kiosk:latest",
		"registry:5000/kiosk":                 "registry:5000/kiosk:latest",
		"registry.example.com/a/b/c:9":        "registry.example.com/a/b/c:9",
		"kiosk@" + digest:                     "docker.io/library/kiosk@" + digest,
		"kiosk:1.2@" + digest:                 "docker.io/library/kiosk@" + digest,
		"registry:5000/kiosk:1.2@" + digest:   "registry:5000/kiosk@" + digest,
		"registry.example.com/kiosk:v1-alpha": "registry.example.com/kiosk:v1-alpha",
	} {
		if got := fullImageName(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if again := fullImageName(want); again != want {
			t.Errorf("%s in full is %s", want, again)
		}
	}
}

func TestANodeHasJustTheImagesThatItLists(t *testing.T) {
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("registry.example.com/image-%d:1", i))
	}
	set := imageSetOf(images(all...))
	if len(set) != 8*101 {
		t.Errorf("%d bytes for 101 names", len(set))
	}
	for _, name := range all {
		if !set.has(hashImage(name)) {
			t.Errorf("%s is listed and not found", name)
		}
	}
	for i := range 1000 {
		if set.has(hashImage(fmt.Sprintf("registry.example.com/absent-%d:1", i))) {
			t.Errorf("absent-%d is found", i)
		}
	}
	if imageSetOf(nil).has(hashImage("kiosk")) {
		t.Error("a node without images has one")
	}
}

func TestNodesWithTheImageAreCountedAmongThoseThatTheTemplateMayUse(t *testing.T) {
	having := func(name, image string, change func(*Node)) Node {
		return with(machine(name, 4000, 32), func(n *Node) {
			n.Images = imageSetOf(images(image))
			change(n)
		})
	}
	any := func(*Node) {}
	m := scene(nodes(
		having("tag", "docker.io/library/kiosk:1", any),
		having("other tag", "docker.io/library/kiosk:2", any),
		having("cordoned", "docker.io/library/kiosk:1", func(n *Node) { n.Open = false }),
		having("tainted", "docker.io/library/kiosk:1", func(n *Node) {
			n.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		}),
		machine("bare", 4000, 32),
	))
	for image, want := range map[string]int32{"kiosk:1": 1, "kiosk:2": 1, "kiosk:3": 0, "other.example.com/x:7@" + digest: 2, "": 0} {
		r := desk()
		r.Image = image
		m.SetTemplates([]*requirements{r})
		if got := capacityOf(t, m).ImageNodes; got != want {
			t.Errorf("%q: %d nodes have it, want %d", image, got, want)
		}
	}
	r := desk()
	r.Image = "kiosk:1"
	m.SetTemplates([]*requirements{r})
	m.SetPod(pod("full", "tag", resources(4000, 32)))
	if got := capacityOf(t, m).ImageNodes; got != 1 {
		t.Errorf("a full node counts %d: it has the image nevertheless", got)
	}
	m.SetNode(machine("tag", 4000, 32))
	if got := capacityOf(t, m).ImageNodes; got != 0 {
		t.Errorf("%d after the node has dropped it", got)
	}
}
