package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestTheCRDsAreDocumentsOfTheirOwn(t *testing.T) {
	var out bytes.Buffer
	if err := writeCRDs(&out); err != nil {
		t.Fatal(err)
	}
	var names []string
	for decoder := yaml.NewYAMLOrJSONDecoder(&out, 4096); ; {
		var crd unstructured.Unstructured
		err := decoder.Decode(&crd.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(crd.Object) > 0 {
			names = append(names, crd.GetKind()+" "+crd.GetName())
		}
	}
	want := []string{
		"CustomResourceDefinition nodepools.karpenter.sh", "CustomResourceDefinition nodeclaims.karpenter.sh",
		"CustomResourceDefinition kwoknodeclasses.karpenter.kwok.sh",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the CRDs are %q, want %q", names, want)
	}
}
