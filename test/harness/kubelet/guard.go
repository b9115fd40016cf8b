package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The containers that are executed as processes: the agent's binary, with the Pod's arguments
// and environment. A guard runs beside a desktop, a gate before it until it exits with 0.
const (
	GuardContainer = "vdi-guard"
	GateContainer  = "vdi-gate"
)

// refTimeout is the timeout of reading a Secret or ConfigMap.
const refTimeout = 5 * time.Second

// command returns the command of a guard or a gate, ready to start. Its binary is the
// agent's, whatever the path in the image.
func (k *kubelet) command(pod *corev1.Pod, c *corev1.Container, ip string) (*exec.Cmd, error) {
	env, err := k.environment(pod, c, ip)
	if err != nil {
		return nil, err
	}
	args := slices.Clone(c.Args)
	if len(c.Command) > 0 {
		args = slices.Concat(c.Command[1:], c.Args)
	}
	for i := range args {
		args[i] = expand(args[i], env)
	}
	cmd := exec.Command(k.options.Guard, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range env {
		cmd.Env = append(cmd.Env, v.name+"="+v.value)
	}
	return cmd, nil
}

type variable struct{ name, value string }

// environment resolves the variables of a container.
func (k *kubelet) environment(pod *corev1.Pod, c *corev1.Container, ip string) ([]variable, error) {
	if len(c.EnvFrom) > 0 {
		return nil, errors.New("the simulated kubelet does not support envFrom")
	}
	var env []variable
	for _, v := range c.Env {
		value := expand(v.Value, env)
		if v.ValueFrom != nil {
			var err error
			if value, err = k.refer(pod, v.ValueFrom, ip); err != nil {
				return nil, fmt.Errorf("reading variable %s: %w", v.Name, err)
			}
		}
		env = append(env, variable{v.Name, value})
	}
	return env, nil
}

func (k *kubelet) refer(pod *corev1.Pod, from *corev1.EnvVarSource, ip string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), refTimeout)
	defer cancel()
	switch {
	case from.FieldRef != nil:
		return field(pod, from.FieldRef.FieldPath, ip, k.network.host().String())
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := k.client.CoreV1().Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return key(secret.Data, ref.Key)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		config, err := k.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return key(config.Data, ref.Key)
	}
	return "", errors.New("the simulated kubelet does not support resourceFieldRef")
}

func key[T string | []byte](data map[string]T, key string) (string, error) {
	value, ok := data[key]
	if !ok {
		return "", fmt.Errorf("there is no key %q", key)
	}
	return string(value), nil
}

// field returns the value of a downward API path.
func field(pod *corev1.Pod, path, ip, host string) (string, error) {
	if name, isOne := subscript(path, "metadata.labels"); isOne {
		return pod.Labels[name], nil
	}
	if name, isOne := subscript(path, "metadata.annotations"); isOne {
		return pod.Annotations[name], nil
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return ip, nil
	case "status.hostIP", "status.hostIPs":
		return host, nil
	}
	return "", fmt.Errorf("there is no field %q", path)
}

// subscript returns NAME of a path such as metadata.labels['NAME'].
func subscript(path, of string) (string, bool) {
	name, found := strings.CutPrefix(path, of+"['")
	if !found {
		return "", false
	}
	return strings.CutSuffix(name, "']")
}

// expand replaces $(NAME) by the value of the variable and $$ by $; references to unknown
// variables remain.
func expand(s string, env []variable) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			return out.String() + s
		}
		out.WriteString(s[:i])
		s = s[i:]
		name, after, closed := strings.Cut(s[2:], ")")
		value, ok := lookUp(env, name)
		switch {
		case s[1] == '$':
			out.WriteByte('$')
			s = s[2:]
		case s[1] == '(' && closed && ok:
			out.WriteString(value)
			s = after
		default:
			out.WriteString(s[:2])
			s = s[2:]
		}
	}
}

func lookUp(env []variable, name string) (string, bool) {
	for _, v := range slices.Backward(env) { // the last one counts
		if v.name == name {
			return v.value, true
		}
	}
	return "", false
}
