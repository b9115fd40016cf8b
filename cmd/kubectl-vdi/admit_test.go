package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToAdmitIsToApplyTheSample(t *testing.T) {
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
