package charts

import (
	goflag "flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/agent"
	"github.com/vdi-fleet/vdi-fleet/agent/door"
	"github.com/vdi-fleet/vdi-fleet/hub"
	"github.com/vdi-fleet/vdi-fleet/hub/console"
)

// bootstrap is the content of the Secret that the agent's variables refer to.
var bootstrap = map[string]string{"member": "eu-west", "hub": "hub.example.com:8443", "serverName": "hub.example.com"}

func TestTheBinariesTakeTheirArguments(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for _, d := range deploymentsOf(t, v) {
				args := arguments(t, d)
				if err := takes(v.chart, args); err != nil {
					t.Errorf("%s: %q: %v", d.Name, args, err)
				}
				if err := takes(v.chart, append(args, "--no-such-flag=1")); err == nil {
					t.Errorf("%s: an unknown flag is accepted", d.Name)
				}
			}
		})
	}
}

// takes parses the arguments as the binary does, and validates them.
func takes(chart string, args []string) error {
	flags := pflag.NewFlagSet(chart, pflag.ContinueOnError)
	logs := goflag.NewFlagSet("logs", goflag.ContinueOnError)
	(&zap.Options{}).BindFlags(logs)
	flags.AddGoFlagSet(logs)
	var options interface {
		AddFlags(*pflag.FlagSet)
		Validate() error
	}
	switch {
	case args[0] == "console":
		options, args = &console.Options{}, args[1:]
	case args[0] == "door":
		options, args = &door.Options{}, args[1:]
	case chart == hubChart:
		options = &hub.Options{}
	default:
		options = &agent.Options{}
	}
	options.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return options.Validate()
}

// deploymentOf returns the Deployment of hub or agent.
func deploymentOf(t *testing.T, v variant) *appsv1.Deployment {
	t.Helper()
	for _, d := range deploymentsOf(t, v) {
		if d.Name == filepath.Base(v.chart) {
			return d
		}
	}
	t.Fatalf("%s has no Deployment %s", v.name, filepath.Base(v.chart))
	return nil
}

func deploymentsOf(t *testing.T, v variant) (out []*appsv1.Deployment) {
	t.Helper()
	for _, object := range objects(t, v.manifest(t)) {
		if object.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// arguments returns those of the container, with its variables expanded as by the kubelet.
func arguments(t *testing.T, d *appsv1.Deployment) []string {
	t.Helper()
	container := d.Spec.Template.Spec.Containers[0]
	var pairs []string
	for _, variable := range container.Env {
		pairs = append(pairs, "$("+variable.Name+")", valueOf(t, variable))
	}
	args := make([]string, 0, len(container.Args))
	for _, arg := range container.Args {
		arg = strings.NewReplacer(pairs...).Replace(arg)
		if strings.Contains(arg, "$(") {
			t.Errorf("%s refers to an undefined variable", arg)
		}
		args = append(args, arg)
	}
	return args
}

func valueOf(t *testing.T, variable corev1.EnvVar) string {
	t.Helper()
	switch from := variable.ValueFrom; {
	case from == nil:
		return variable.Value
	case from.FieldRef != nil:
		return "of-the-pod"
	default:
		value, ok := bootstrap[from.SecretKeyRef.Key]
		if !ok || from.SecretKeyRef.Name != "vdi-agent-bootstrap" {
			t.Errorf("%s is of %s in %s", variable.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Name)
		}
		return value
	}
}

func TestGuardsAndBuffersAreOfTheAgentsImage(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		if v.chart != agentChart || v.name == "agent-least" {
			continue
		}
		d := deploymentOf(t, v)
		want := "--guard-image=" + d.Spec.Template.Spec.Containers[0].Image
		if args := arguments(t, d); !strings.Contains(strings.Join(args, " ")+" ", want+" ") {
			t.Errorf("%s: no %s in %q", v.name, want, args)
		}
		buffer := strings.Replace(want, "guard", "buffer", 1)
		if args := arguments(t, d); slices.Contains(args, buffer) != (v.name == "agent-all") {
			t.Errorf("%s: %s in %q", v.name, buffer, args)
		}
	}
}
