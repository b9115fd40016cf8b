package apply

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// FieldManager is the field manager of the harness in server-side apply.
const FieldManager = "vdi-fleet-harness"

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Applier applies manifests to one API server as its administrator.
type Applier struct {
	// Client and Dynamic have the rights of the administrator.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface

	wait func(ctx context.Context, check func(context.Context) error) error
}

// New returns the Applier of an API server. wait polls check until it returns nil, and
// fails once the API server has ended.
func New(config *rest.Config, wait func(ctx context.Context, check func(context.Context) error) error) (*Applier, error) {
	a := &Applier{wait: wait}
	var err error
	if a.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	if a.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return a, nil
}

// WaitUntil polls check until it returns nil. It fails at once when the API server ends.
func (a *Applier) WaitUntil(ctx context.Context, check func(context.Context) error) error {
	return a.wait(ctx, check)
}

// Apply applies every document of the YAML in order, server-side, as the
// administrator.
func (a *Applier) Apply(ctx context.Context, manifest []byte) error {
	objects, err := Decode(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := a.ApplyObject(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// ApplyFile applies a YAML file, or every *.yaml of a directory by name.
func (a *Applier) ApplyFile(ctx context.Context, path string) error {
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
		if err := a.Apply(ctx, content); err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return nil
}

// ApplyObject applies one object, server-side, as the administrator.
func (a *Applier) ApplyObject(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := a.resourceClient(ctx, object)
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// EnsureNamespace creates the namespace or adds the labels to it.
func (a *Applier) EnsureNamespace(ctx context.Context, name string, labels map[string]string) error {
	return a.ApplyObject(ctx, Object("v1", "Namespace", "", name, labels))
}

// InstallCRDs applies the CRDs of a directory and waits until all are
// established and served.
func (a *Applier) InstallCRDs(ctx context.Context, dir string) error {
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
		objects, err := Decode(content)
		if err != nil {
			return fmt.Errorf("installing %s: %w", file, err)
		}
		for _, crd := range objects {
			if err := a.ApplyObject(ctx, crd); err != nil {
				return fmt.Errorf("installing %s: %w", file, err)
			}
			crds = append(crds, crd)
		}
	}
	for _, crd := range crds {
		if err := a.WaitUntil(ctx, func(ctx context.Context) error {
			return a.established(ctx, crd)
		}); err != nil {
			return fmt.Errorf("installing CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

func (a *Applier) established(ctx context.Context, crd *unstructured.Unstructured) error {
	current, err := a.Dynamic.Resource(crdResource).Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ConditionStatus(current, "Established") != "True" {
		return errors.New("not established")
	}
	group, _, _ := unstructured.NestedString(current.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(current.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(current.Object, "spec", "versions")
	for _, version := range versions {
		name, _ := version.(map[string]any)["name"].(string)
		served, err := a.Client.Discovery().ServerResourcesForGroupVersion(group + "/" + name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			return fmt.Errorf("%s is not served", plural)
		}
		list := a.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		if _, err := list.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
	}
	return nil
}

// resourceClient returns the client for an object's kind. It waits for a new kind until
// discovery has it.
func (a *Applier) resourceClient(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	for {
		mapping, err := a.mapping(kind)
		if err == nil {
			resource := a.Dynamic.Resource(mapping.Resource)
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

func (a *Applier) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	resources, err := a.Client.Discovery().ServerResourcesForGroupVersion(kind.GroupVersion().String())
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

// Decode reads every document of the YAML that is not empty.
func Decode(manifest []byte) ([]*unstructured.Unstructured, error) {
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
