// Command controlplane is a whole Kubernetes control plane in one file: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and KWOK.
//
// Which of them it is depends on the name it is called by, as with busybox:
// a symlink named kubectl is kubectl. Called as controlplane, its first
// argument names the component.
//
// One binary instead of six saves five link steps and some 400 MB, since the
// components share most of their code. It exists for test/harness alone.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones, as in the components' own mains
)

// components maps the name of a component to its main function. The function
// finds its own command line in os.Args, with os.Args[0] being its name. It is
// called before any command is built, so that only one component's flags and
// metrics are ever registered.
var components = map[string]func(){
	"etcd":                    etcd,
	"kube-apiserver":          apiServer,
	"kube-controller-manager": controllerManager,
	"kube-scheduler":          scheduler,
	"kubectl":                 kubectl,
	"kwok":                    kwok,
}

func main() {
	if run, ok := components[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, ok := components[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	fmt.Fprintf(os.Stderr, "usage: %s {%s} [arguments]\n", filepath.Base(os.Args[0]), strings.Join(names(), "|"))
	os.Exit(2)
}

func names() []string {
	var all []string
	for name := range components {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
