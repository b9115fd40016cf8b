package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// FieldManager is the harness's in server-side apply.
const FieldManager = "vdi-fleet-harness"

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Apply applies every document of the YAML in order, server-side, as the
// administrator.
func (cp *ControlPlane) Apply(ctx context.Context, manifest []byte) error {
	objects, err := decodeYAML(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := cp.ApplyObject(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// ApplyFile applies a YAML file, or every *.yaml of a directory by name.
func (cp *ControlPlane) ApplyFile(ctx context.Context, path string) error {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("applying: %w", err)
	} else if info.IsDir() {
		if files, err = yamlFiles(path); err != nil {
			return err
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("applying: %w", err)
		}
		if err := cp.Apply(ctx, content); err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return nil
}

// ApplyObject applies one object, server-side, as the administrator.
func (cp *ControlPlane) ApplyObject(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := cp.resourceClient(ctx, object)
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// InstallCRDs applies the CRDs of a directory and waits until all are
// established and served.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, dir string) error {
	files, err := yamlFiles(dir)
	if err != nil {
		return err
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("installing CRDs: %w", err)
		}
		objects, err := decodeYAML(content)
		if err != nil {
			return fmt.Errorf("installing %s: %w", file, err)
		}
		for _, crd := range objects {
			if err := cp.ApplyObject(ctx, crd); err != nil {
				return fmt.Errorf("installing %s: %w", file, err)
			}
			crds = append(crds, crd)
		}
	}
	for _, crd := range crds {
		if err := cp.APIServer.WaitUntil(ctx, func(ctx context.Context) error {
			return cp.established(ctx, crd)
		}); err != nil {
			return fmt.Errorf("installing CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

func (cp *ControlPlane) established(ctx context.Context, crd *unstructured.Unstructured) error {
	current, err := cp.Dynamic.Resource(crdResource).Get(ctx, crd.GetName(), getOptions)
	if err != nil {
		return err
	}
	if conditionStatus(current, "Established") != "True" {
		return errors.New("not established")
	}
	group, _, _ := unstructured.NestedString(current.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(current.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(current.Object, "spec", "versions")
	for _, version := range versions {
		name, _ := version.(map[string]any)["name"].(string)
		served, err := cp.Client.Discovery().ServerResourcesForGroupVersion(group + "/" + name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			return fmt.Errorf("%s is not served", plural)
		}
		list := cp.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		if _, err := list.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
	}
	return nil
}

// resourceClient finds the resource of an object's kind. A kind that is new to
// the API server may take a moment to be discovered.
func (cp *ControlPlane) resourceClient(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	for {
		mapping, err := cp.mapping(kind)
		if err == nil {
			resource := cp.Dynamic.Resource(mapping.Resource)
			if mapping.Scope.Name() == meta.RESTScopeNameRoot {
				return resource, nil
			}
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = metav1.NamespaceDefault
			}
			return resource.Namespace(namespace), nil
		}
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (cp *ControlPlane) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	resources, err := cp.Client.Discovery().ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{{
		Group: metav1.APIGroup{
			Name:     kind.Group,
			Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}},
		},
		VersionedResources: map[string][]metav1.APIResource{kind.Version: resources.APIResources},
	}})
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

func decodeYAML(manifest []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding YAML: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func yamlFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("listing %s: no YAML files", dir)
	}
	return files, nil
}

// object makes an unstructured one without a spec.
func object(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

// conditionStatus returns the status of a condition of any object, "" if it is
// not there.
func conditionStatus(o *unstructured.Unstructured, conditionType string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == conditionType {
			status, _ := condition["status"].(string)
			return status
		}
	}
	return ""
}
