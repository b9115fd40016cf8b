package api

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var update = flag.Bool("update", false, "write the golden files again")

var cluster *harness.ControlPlane

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	cluster, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name:    "hub",
		APIOnly: true,
		CRDDirs: crdDirs,
		Namespaces: map[string]map[string]string{
			"desktops":   nil,
			"vdi-system": {"pod-security.kubernetes.io/warn": "restricted"},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
})

// expectGolden compares with a file of testdata, or writes it with -update.
func expectGolden(file, got string) {
	GinkgoHelper()
	path := "testdata/" + file
	if *update {
		Expect(os.WriteFile(path, []byte(got), 0o644)).To(Succeed())
		return
	}
	want, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	if diff := cmp.Diff(string(want), got); diff != "" {
		Fail("differs from " + path + " (-want +got), write it again with -update:\n" + diff)
	}
}
