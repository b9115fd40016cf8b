package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("Samples", func() {
	var files []string
	for _, pattern := range []string{"../../deploy/samples/*.yaml", "../../deploy/samples/policies/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			panic("no samples in " + pattern)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if filepath.Base(file) == "namespace.yaml" {
			continue // the suite has it already
		}
		It(filepath.Base(file)+" is admitted, without unknown fields", func(ctx context.Context) {
			_, err := cluster.Kubectl(ctx, "create", "--dry-run=server", "--validate=strict", "-f", withoutNamespaces(file))
			Expect(err).NotTo(HaveOccurred())
		})
	}

	It("are beside roles that the API server accepts strictly", func(ctx context.Context) {
		for _, file := range []string{"../../deploy/charts/vdi-hub/files/rbac.yaml", "../../deploy/charts/vdi-agent/files/rbac.yaml"} {
			_, err := cluster.Kubectl(ctx, "create", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", withoutNamespaces(file))
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("name only templates and policies that are among them", func() {
		objects := map[string]bool{}
		var sessions []vdi.VDISession
		for _, file := range files {
			for _, document := range documents(file) {
				var object metav1.PartialObjectMetadata
				Expect(yaml.Unmarshal([]byte(document), &object)).To(Succeed())
				objects[object.Kind+"/"+object.Name] = true
				if object.Kind == "VDISession" {
					var session vdi.VDISession
					Expect(yaml.UnmarshalStrict([]byte(document), &session)).To(Succeed())
					sessions = append(sessions, session)
				}
			}
		}
		Expect(sessions).NotTo(BeEmpty())
		for _, session := range sessions {
			Expect(objects).To(HaveKey("VDITemplate/"+session.Spec.Template), session.Name)
			if policy := session.Spec.Placement.Policy; policy != "" {
				Expect(objects).To(HaveKey("PlacementPolicy/"+policy), session.Name)
			}
		}
	})
})

func documents(file string) []string {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return strings.Split(string(content), "\n---\n")
}

// withoutNamespaces copies a sample without its Namespaces, which the suite has created.
func withoutNamespaces(file string) string {
	GinkgoHelper()
	var kept []string
	for _, document := range documents(file) {
		if !strings.Contains(document, "kind: Namespace\n") {
			kept = append(kept, document)
		}
	}
	path := filepath.Join(GinkgoT().TempDir(), filepath.Base(file))
	Expect(os.WriteFile(path, []byte(strings.Join(kept, "\n---\n")), 0o600)).To(Succeed())
	return path
}
