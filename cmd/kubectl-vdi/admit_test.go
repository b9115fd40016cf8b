package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamespacesThatAreNotAdmitted(t *testing.T) {
	for namespace, allowed := range map[string]bool{"desktops": true, "vdi-system": false, "kube-system": false, "kube-public": false} {
		_, err := run(&cluster{}, "", "admit", namespace, "--kubeconfig=/nowhere")
		if refused := err != nil && strings.Contains(err.Error(), "can't admit sessions"); refused == allowed {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

func TestAdmitAppliesTheSample(t *testing.T) {
	content, err := os.ReadFile("../../deploy/samples/namespace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample, err := decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample, admission("desktops", agentNamespace)); diff != "" {
		t.Error(diff)
	}
}
