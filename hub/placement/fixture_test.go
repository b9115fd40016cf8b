package placement

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

const gi = int64(1) << 30

var desk = TemplateKey{Name: "desk", Revision: "r1"}

// free returns the free resources of a node: cpu in milli-units, memory in GiB.
func free(cpu, memory int64) Resources {
	return Resources{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory * gi, corev1.ResourcePods: 100}
}

// reporting returns a capacity report that admits namespace demo and can run desk.
func reporting(buckets ...Bucket) *Capacity {
	return &Capacity{
		Sequence: 1, Nodes: 1, AdmittedNamespaces: NewNamespaces("demo"),
		Templates: map[TemplateKey]TemplateCapacity{desk: {Available: true, Buckets: buckets}},
	}
}

// member returns a member in region "eu" with nodes of 8 cpu and 32 GiB, ready for desk.
func member(name string, nodes int32) Candidate {
	return Candidate{
		ClusterRef: v1alpha1.ClusterRef{Name: name, UID: types.UID("uid-" + name)}, Labels: map[string]string{"tier": "a"},
		MemberClusterSpec: v1alpha1.MemberClusterSpec{Region: "eu", Scheduling: v1alpha1.SchedulingActive}, Ready: true,
		Capacity: reporting(Bucket{Nodes: nodes, Free: free(8000, 32).Amounts()}),
	}
}

// with returns a changed candidate.
func with(c Candidate, change func(*Candidate)) Candidate {
	change(&c)
	return c
}

// session returns a request for 1 cpu and 4 GiB with template desk.
func session(name string) Request {
	return Request{
		UID: types.UID("session-" + name), Namespace: "demo", Name: name, User: "ada", Template: desk,
		Resources: Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 4 * gi},
	}
}

// requestWith returns a changed request.
func requestWith(r Request, change func(*Request)) Request {
	change(&r)
	return r
}

func ptr[T any](v T) *T { return &v }

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func describe(d Decision) string {
	out := fmt.Sprintf("%s: %s\n", d.Reason, d.Message)
	for _, v := range d.Verdicts {
		if v.Fits {
			out += fmt.Sprintf("  %d. %s (%s): %s\n", v.Rank, v.ClusterName, v.Region, v.Message)
		} else {
			out += fmt.Sprintf("  -  %s (%s): %s: %s\n", v.ClusterName, v.Region, v.Filter, v.Message)
		}
	}
	return out
}
