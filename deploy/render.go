package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Charts that Render takes; their releases have the same names.
const (
	HubChart   = "vdi-hub"
	AgentChart = "vdi-agent"
)

//go:embed all:charts
var charts embed.FS

// kubernetes is the version that charts are rendered for, as `helm template` of
// bin/helm does.
var kubernetes = chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}

// Render returns the objects of a chart in the order in which they are applied, without
// hooks: what `helm template --no-hooks` prints. Values replace the chart's defaults. Served
// are the kinds that the API server serves beside those of Kubernetes, such as
// vdi.kasm.io/v1alpha1/PlacementPolicy: helm's --api-versions.
func Render(name, namespace string, values map[string]any, served ...string) ([]*unstructured.Unstructured, error) {
	files, err := filesOf(name)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("reading the values of chart %s: %w", name, err)
	}
	plain, err := chartutil.ReadValues(text) // the types that Helm expects
	if err != nil {
		return nil, fmt.Errorf("reading the values of chart %s: %w", name, err)
	}
	chart, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("loading chart %s: %w", name, err)
	}
	release := chartutil.ReleaseOptions{Name: name, Namespace: namespace, IsInstall: true, Revision: 1}
	capabilities := &chartutil.Capabilities{KubeVersion: kubernetes, APIVersions: slices.Concat(chartutil.DefaultVersionSet, served)}
	input, err := chartutil.ToRenderValues(chart, plain, release, capabilities)
	if err != nil {
		return nil, fmt.Errorf("checking the values of chart %s: %w", name, err)
	}
	texts, err := engine.Render(chart, input)
	if err != nil {
		return nil, fmt.Errorf("rendering chart %s: %w", name, err)
	}
	_, manifests, err := releaseutil.SortManifests(texts, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("rendering chart %s: %w", name, err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(manifests))
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest.Content), &object.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", manifest.Name, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// filesOf returns the files of a chart, apart from the notes that Helm prints.
func filesOf(name string) ([]*loader.BufferedFile, error) {
	root := path.Join("charts", name)
	var files []*loader.BufferedFile
	err := fs.WalkDir(charts, root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "NOTES.txt" {
			return err
		}
		data, err := charts.ReadFile(file)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(file, root+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", name, err)
	}
	return files, nil
}
