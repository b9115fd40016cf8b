package kindfleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/cluster/nodes"
)

// Node is a node's container. It reads containers from containerd, not from any API server.
type Node struct{ nodes.Node }

// Container is a container of containerd.
type Container struct {
	ID, State                  string
	Name, Pod, Namespace       string
	Created, Started, Finished time.Time
	ExitCode                   int
}

// States of a Container.
const (
	Running = "CONTAINER_RUNNING"
	Exited  = "CONTAINER_EXITED"
)

// Exec runs a command in the node.
func (n *Node) Exec(ctx context.Context, command string, args ...string) (string, error) {
	var out, failed bytes.Buffer
	err := n.CommandContext(ctx, command, args...).SetStdout(&out).SetStderr(&failed).Run()
	if err != nil {
		return out.String(), fmt.Errorf("%s %s in %s: %w: %s", command, strings.Join(args, " "), n, err, failed.String())
	}
	return out.String(), nil
}

// Containers returns the containers of that name in the node, of any Pod, running or not.
func (n *Node) Containers(ctx context.Context, name string) ([]Container, error) {
	text, err := n.Exec(ctx, "crictl", "ps", "-a", "--name", "^"+name+"$", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Containers []struct {
			ID, State string
			Labels    map[string]string
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	found := make([]Container, 0, len(list.Containers))
	for _, c := range list.Containers {
		container := Container{
			ID: c.ID, State: c.State, Name: c.Labels["io.kubernetes.container.name"],
			Pod: c.Labels["io.kubernetes.pod.name"], Namespace: c.Labels["io.kubernetes.pod.namespace"],
		}
		if err := n.inspect(ctx, &container); err != nil {
			return nil, err
		}
		found = append(found, container)
	}
	return found, nil
}

// inspect fills in the container's times.
func (n *Node) inspect(ctx context.Context, c *Container) error {
	text, err := n.Exec(ctx, "crictl", "inspect", c.ID)
	if err != nil {
		return err
	}
	var answer struct {
		Status struct {
			State                            string
			CreatedAt, StartedAt, FinishedAt time.Time
			ExitCode                         int
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return err
	}
	s := answer.Status
	c.State, c.Created, c.Started, c.Finished, c.ExitCode = s.State, s.CreatedAt, s.StartedAt, s.FinishedAt, s.ExitCode
	return nil
}

// Folders of the manifests of static Pods, and of those that are stopped.
const (
	staticPods   = "/etc/kubernetes/manifests/"
	disabledPods = "/etc/kubernetes/aside/"
)

// StopControlPlane ends the API server and etcd of this node, as a crash does: the kubelet
// continues to run its Pods, and receives nothing.
func (n *Node) StopControlPlane(ctx context.Context) error {
	_, err := n.Exec(ctx, "sh", "-c", "mkdir -p "+disabledPods+" && mv "+staticPods+"kube-apiserver.yaml "+staticPods+"etcd.yaml "+disabledPods+
		" && crictl ps -q --name '^(kube-apiserver|etcd)$' | xargs -r crictl stop -t 0")
	return err
}

// StartControlPlane starts them again.
func (n *Node) StartControlPlane(ctx context.Context) error {
	_, err := n.Exec(ctx, "sh", "-c", "[ ! -d "+disabledPods+" ] || { mv "+disabledPods+"* "+staticPods+" && rmdir "+disabledPods+"; }")
	return err
}

// run runs a command on this machine.
func run(ctx context.Context, command string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s%s", err, failed.String(), out)
		}
		return string(out), fmt.Errorf("%s %s: %w", command, strings.Join(args, " "), err)
	}
	return string(out), nil
}
