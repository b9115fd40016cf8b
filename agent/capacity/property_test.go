package capacity

import (
	"fmt"
	"maps"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// facts are the objects that were set last, without any model.
type facts struct {
	nodes       map[string]Node
	pods        map[types.UID]Pod
	assignments map[types.UID]Assignment
	templates   []*requirements
}

// rebuild sets the facts in a random order, as a new agent receives them.
func (f *facts) rebuild(seed int64) *Model {
	m := NewModel(restriction.Defaults())
	m.SetIngressClasses(Classes{Default: true})
	sets := []func(){func() {
		m.SetStorageClasses(Classes{Default: true, Topologies: map[string][]corev1.TopologySelectorTerm{"": {{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "pool", Values: []string{"b"}}}}}}})
	}}
	for _, n := range f.nodes {
		sets = append(sets, func() { m.SetNode(n) })
	}
	for _, p := range f.pods {
		sets = append(sets, func() { m.SetPod(p) })
	}
	for _, a := range f.assignments {
		sets = append(sets, func() { m.SetAssignment(a) })
	}
	sets = append(sets, func() { m.SetTemplates(f.templates) })
	rand.New(rand.NewSource(seed)).Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
	for _, set := range sets {
		set()
	}
	return m
}

func drawResources(t *rapid.T, most int64) Resources {
	r := Resources{
		corev1.ResourceCPU:    rapid.Int64Range(0, most).Draw(t, "cpu") * 250,
		corev1.ResourceMemory: rapid.Int64Range(0, most).Draw(t, "memory") * gi / 2,
	}
	if rapid.Bool().Draw(t, "has gpu") {
		r[gpu] = rapid.Int64Range(0, 2).Draw(t, "gpu")
	}
	return r
}

func drawNode(t *rapid.T, name string) Node {
	n := Node{Name: name, Allocatable: drawResources(t, 20), Open: rapid.IntRange(0, 3).Draw(t, "open") > 0,
		Labels: map[string]string{"pool": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pool")}}
	n.Allocatable[corev1.ResourcePods] = rapid.Int64Range(0, 5).Draw(t, "pods")
	if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
		n.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

func drawTemplate(t *rapid.T, name string) *requirements {
	r := &requirements{Name: name, Revision: "r", Resources: quantities(drawResources(t, 4))}
	if rapid.Bool().Draw(t, "picky") {
		r.NodeSelector = map[string]string{"pool": "a"}
	}
	r.Home = rapid.Bool().Draw(t, "home")
	if rapid.Bool().Draw(t, "tolerant") {
		r.Tolerations = []*fleetv1.Toleration{{Operator: "Exists"}}
	}
	return r
}

func TestStateIsAFunctionOfWhatWasSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &facts{nodes: map[string]Node{}, pods: map[types.UID]Pod{}, assignments: map[types.UID]Assignment{}}
		m := f.rebuild(0)
		node := rapid.SampledFrom(names("n", 4))
		session := rapid.SampledFrom([]types.UID{"s0", "s1", "s2"})
		uid := rapid.SampledFrom([]types.UID{"u0", "u1", "u2", "u3"})
		t.Repeat(map[string]func(*rapid.T){
			"set node": func(t *rapid.T) {
				n := drawNode(t, node.Draw(t, "node"))
				f.nodes[n.Name] = n
				m.SetNode(n)
			},
			"delete node": func(t *rapid.T) {
				name := node.Draw(t, "node")
				delete(f.nodes, name)
				m.DeleteNode(name)
			},
			"set pod": func(t *rapid.T) {
				p := Pod{UID: uid.Draw(t, "pod"), Resources: drawResources(t, 6), Done: rapid.IntRange(0, 4).Draw(t, "done") == 0}
				if rapid.Bool().Draw(t, "bound") {
					p.Node = node.Draw(t, "node")
				}
				if rapid.Bool().Draw(t, "own") {
					p.Session = session.Draw(t, "session")
				}
				f.pods[p.UID] = p
				m.SetPod(p)
			},
			"delete pod": func(t *rapid.T) {
				u := uid.Draw(t, "pod")
				delete(f.pods, u)
				m.DeletePod(u)
			},
			"set assignment": func(t *rapid.T) {
				a := Assignment{UID: "a-" + uid.Draw(t, "assignment"), Session: session.Draw(t, "session"),
					Resources: drawResources(t, 6), Idle: rapid.IntRange(0, 2).Draw(t, "idle") == 0, PodSpec: PodSpec{Home: rapid.Bool().Draw(t, "home")}}
				f.assignments[a.UID] = a
				m.SetAssignment(a)
			},
			"delete assignment": func(t *rapid.T) {
				u := "a-" + uid.Draw(t, "assignment")
				delete(f.assignments, u)
				m.DeleteAssignment(u)
			},
			"set templates": func(t *rapid.T) {
				f.templates = nil
				for _, name := range names("t", rapid.IntRange(0, 2).Draw(t, "templates")) {
					f.templates = append(f.templates, drawTemplate(t, name))
				}
				m.SetTemplates(f.templates)
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(f.rebuild(int64(len(f.pods))).Report(), m.Report(), protocmp.Transform()); diff != "" {
					t.Fatalf("rebuilt (-) differs from incremental (+):\n%s", diff)
				}
				f.check(t, m.Report())
			},
		})
	})
}

// check requires that a report shows no more than is free, with the use of bound Pods
// computed independently.
func (f *facts) check(t *rapid.T, r *fleetv1.CapacityReport) {
	for i, tr := range r.Templates {
		var shown, there int64
		requested, err := resourcesFromWire(f.templates[i].Resources)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range convert.BucketsOf(r, tr) {
			shown += int64(b.Nodes) * requested.ofPod().demand().timesIn(wire(b.Free))
		}
		for _, n := range f.nodes {
			free := maps.Clone(n.Allocatable)
			for _, p := range f.pods {
				if p.Node == n.Name && !p.Done {
					free.add(p.Resources.ofPod(), -1)
				}
			}
			if n.Open {
				there += requested.ofPod().demand().timesIn(free)
			}
		}
		if shown > there {
			t.Fatalf("%s shows %d slots, there are %d", tr.Name, shown, there)
		}
	}
}

func TestBucketsNeverOverstate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []counted
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		total := rapid.Int32Range(0, 1500).Draw(t, "nodes")
		for range total {
			free := resources(random.Int63n(64)*500, random.Int63n(128))
			free[corev1.ResourcePods] = random.Int63n(300)
			groups = append(groups, counted{newVector(free), 1})
		}
		demand := resources(rapid.Int64Range(0, 4).Draw(t, "cpu")*500, rapid.Int64Range(0, 4).Draw(t, "memory")).ofPod().demand()
		buckets := bucketsOf(groups, demand)
		if len(buckets) > maxBuckets {
			t.Fatalf("%d buckets", len(buckets))
		}
		var nodes int32
		for _, b := range buckets {
			nodes += b.Nodes
		}
		if nodes != total {
			t.Fatalf("%d nodes of %d", nodes, total)
		}
		other := resources(1500, 5).ofPod().demand()
		if got, most := slotsOf(buckets, other), truth(groups, other); got > most {
			t.Fatalf("%d slots shown of another size, %d there", got, most)
		}
		if levels := distinct(groups, demand); levels+2 <= maxBuckets {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if got, want := mostOf(buckets, name), mostThere(groups, name); got != want {
					t.Fatalf("the most %s on a node is reported as %d, and is %d", name, got, want)
				}
			}
		}
		got, want := slotsOf(buckets, demand), truth(groups, demand)
		if levels := distinct(groups, demand); got > want || levels <= maxBuckets && got != want {
			t.Fatalf("%d slots of the default size shown, %d there, in %d levels", got, want, levels)
		}
	})
}

func slotsOf(buckets []Bucket, r demand) (slots int64) {
	for _, b := range buckets {
		slots += int64(b.Nodes) * r.timesIn(b.Free)
	}
	return slots
}

func truth(groups []counted, r demand) (slots int64) {
	for _, c := range groups {
		slots += int64(c.nodes) * r.timesIn(c.free)
	}
	return slots
}

func mostOf(buckets []Bucket, name corev1.ResourceName) (most int64) {
	for _, b := range buckets {
		most = max(most, b.Free[name])
	}
	return most
}

func mostThere(groups []counted, name corev1.ResourceName) (most int64) {
	for _, c := range groups {
		most = max(most, c.free[name])
	}
	return most
}

func distinct(groups []counted, r demand) int {
	seen := map[string]bool{}
	for _, c := range groups {
		seen[fmt.Sprint(r.timesIn(c.free))] = true
	}
	return len(seen)
}
