package kwok

import _ "embed"

var (
	//go:embed pods.yaml
	pods string
	//go:embed nodes.yaml
	nodes string
)

// Stages returns KWOK's configuration: the stages of nodes and, unless kubelets run them,
// of Pods.
func Stages(kubelets bool) string {
	if kubelets {
		return nodes
	}
	return pods + "---\n" + nodes
}
