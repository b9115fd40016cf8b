package api

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// valid holds, by plural, the smallest object that is admitted.
var valid = map[string]string{
	"vdisessions": `
kind: VDISession
metadata: {name: alice, namespace: desktops}
spec: {user: alice@example.com, template: browser}`,
	"vditemplates": `
kind: VDITemplate
metadata: {name: browser}
spec: {image: "docker.io/kasmweb/chrome:1.16.0", port: 6901}`,
	"memberclusters": `
kind: MemberCluster
metadata: {name: eu-west}
spec: {region: eu-west, ingressDomain: eu.example.com}`,
	"placementpolicies": `
kind: PlacementPolicy
metadata: {name: default}
spec: {}`,
	"placementreviews": `
kind: PlacementReview
metadata: {name: where, namespace: desktops}
spec: {session: {user: alice@example.com, template: browser}}`,
	"vdihomes": `
kind: VDIHome
metadata: {name: home-alice, namespace: desktops}
spec: {user: alice@example.com, template: developer, clusterName: eu-west, clusterUID: uid-1, claimName: home-alice}`,
	"accesstickets": `
kind: AccessTicket
metadata: {name: login, namespace: desktops}
spec: {access: Console, user: alice@example.com, challenge: LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564}`,
	"sessionassignments": `
kind: SessionAssignment
metadata: {name: alice, namespace: desktops}
spec:
  session: {namespace: desktops, name: alice, uid: uid-1}
  epoch: 3
  user: alice@example.com
  template: browser
  templateRevision: r1
  runState: Running
  host: alice.eu.example.com
  desktop: {image: "docker.io/kasmweb/chrome:1.16.0", port: 6901}`,
}

// build returns the valid object of a plural with merge patches applied to it.
func build(plural string, patches ...string) *unstructured.Unstructured {
	GinkgoHelper()
	object := parse(valid[plural])
	for _, patch := range patches {
		merge(object, parse(patch))
	}
	object["apiVersion"] = vdi.GroupVersion.String()
	return &unstructured.Unstructured{Object: object}
}

func parse(text string) map[string]any {
	GinkgoHelper()
	object := map[string]any{}
	Expect(yaml.Unmarshal([]byte(text), &object)).To(Succeed(), text)
	return object
}

// merge applies a JSON merge patch (RFC 7396).
func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		existing, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(existing, inner)
		case isMap:
			into[key] = maps.Clone(inner)
		default:
			into[key] = value
		}
	}
}

// client returns the client of a plural, in namespace desktops if it is namespaced.
func client(plural string) dynamic.ResourceInterface {
	resource := cluster.Dynamic.Resource(schema.GroupVersionResource{
		Group: vdi.GroupName, Version: vdi.GroupVersion.Version, Resource: plural,
	})
	if parse(valid[plural])["metadata"].(map[string]any)["namespace"] != nil {
		return resource.Namespace("desktops")
	}
	return resource
}

// store creates an object, with its status if there is one; it is deleted when the spec ends.
func store(ctx context.Context, plural string, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	status, hasStatus := object.Object["status"]
	stored, err := client(plural).Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(client(plural).Delete(ctx, object.GetName(), metav1.DeleteOptions{})).To(Succeed())
	})
	if _, kept := stored.Object["status"]; hasStatus && !kept { // a kind without the subresource keeps it at once
		stored.Object["status"] = status
		stored, err = client(plural).UpdateStatus(ctx, stored, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	return stored
}

// answer returns the message of a rejection, without the name of the object.
func answer(err error) string {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), fmt.Sprint("refused as invalid: ", err))
	_, text, found := strings.Cut(err.Error(), " is invalid: ")
	Expect(found).To(BeTrue(), err.Error())
	return text
}
