package harness_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubelet"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// fakeFleet runs `fleet kubelet`.
func fakeFleet(flags map[string]string) error {
	config, err := clientcmd.BuildConfigFromFlags("", flags["kubeconfig"])
	if err != nil {
		return err
	}
	config.QPS = -1
	return kubelet.Run(context.Background(), kubelet.Options{
		Config: config, Member: flags["member"], Log: flags["log"], Guard: flags["guard"],
		// One second of a Pod's spec takes a tenth of one here.
		Second: 100 * time.Millisecond, StartDelay: 20 * time.Millisecond, StopDelay: 20 * time.Millisecond,
	})
}

const guardPort = "8099"

// fakeGuard reports a desktop as alive while a file exists, and ends on SIGTERM.
func fakeGuard(flags map[string]string) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		os.Exit(0)
	}()
	return http.ListenAndServe(flags["address"], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(flags["lease"]); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// machines is a control plane with a simulated kubelet, and the directory of its leases.
type machines struct {
	*harness.ControlPlane
	dir string
}

func startNodes(ctx context.Context, t *testing.T) machines {
	t.Helper()
	root := t.TempDir()
	must(t, fakeRoot(root))
	t.Setenv("VDI_FLEET_ROOT", root)
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		Kubelets:   true,
		Nodes:      []kwok.NodeGroup{{Count: 2, Region: "eu-west", Zone: "eu-west-a"}},
		Namespaces: map[string]map[string]string{"desktops": nil},
	})
	must(t, cp.WaitNodesReady(ctx, 2))
	return machines{cp, t.TempDir()}
}

// desktop returns a Pod of a session of the same name.
func (n machines) desktop(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(name, "registry.example/desktop:1", nil)
	p.Labels = map[string]string{"vdi.kasm.io/session-uid": name}
	p.Annotations = map[string]string{"vdi.kasm.io/epoch": "7"}
	p.Spec.Containers[0].Name = "desktop"
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8098}}
	p.Spec.TerminationGracePeriodSeconds = new(int64(20))
	for _, c := range change {
		c(p)
	}
	return p
}

// guarded adds a guard to a desktop, which keeps it alive while its lease file exists.
func (n machines) guarded(p *corev1.Pod) {
	alive := func(failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/alive", Port: intstr.Parse(guardPort)}},
			PeriodSeconds: 1, TimeoutSeconds: 20, FailureThreshold: failures,
		}
	}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.InitContainers = []corev1.Container{{
		Name: kubelet.GuardContainer, Image: "registry.example/agent:1", Command: []string{"/agent", "guard"},
		Args: []string{"--address=$(POD_IP):" + guardPort, "--lease=" + n.lease(p.Name)},
		Env: []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
		}}},
		StartupProbe:  alive(1000),
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
	}}
	p.Spec.Containers[0].LivenessProbe = alive(3)
}

func (n machines) lease(name string) string { return filepath.Join(n.dir, name) }

func (n machines) grant(t *testing.T, name string) { must(t, os.WriteFile(n.lease(name), nil, 0o600)) }

// runs returns the runs of a Pod's containers, oldest first, and errors of the log.
func (n machines) runs(name string) ([]observer.Run, error) {
	history, err := observer.Read(n.ContainerLog())
	return history.Filter(func(r observer.Run) bool { return r.Pod == name }), err
}

// runsAre checks the runs of a Pod's containers, as "desktop, desktop+143": one that runs, and
// one that has ended with a code, or was cut off.
func (n machines) runsAre(name, want string) func(context.Context) error {
	return func(context.Context) error {
		runs, err := n.runs(name)
		var parts []string
		for _, r := range runs {
			part := r.Container
			switch {
			case r.CutOff:
				part += "+cut"
			case !r.Open:
				part += fmt.Sprintf("+%d", r.ExitCode)
			}
			parts = append(parts, part)
		}
		if got := strings.Join(parts, ", "); err == nil && got != want {
			err = fmt.Errorf("%s: %q, want %q", name, got, want)
		}
		return err
	}
}

func TestKubeletKeepsGuardsAndGrace(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	n := startNodes(ctx, t)
	pods := n.Client.CoreV1().Pods("desktops")
	create := func(name string, change ...func(*corev1.Pod)) {
		createPod(ctx, t, n.ControlPlane, n.desktop(name, change...))
	}
	phase := func(want corev1.PodPhase) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return p.Status.Phase == want }
	}

	t.Run("runs a desktop once its guard allows it, and answers on its port", func(t *testing.T) {
		create("granted", n.guarded)
		eventually(ctx, t, podIs(n.ControlPlane, "granted", func(p *corev1.Pod) bool {
			statuses := p.Status.InitContainerStatuses
			return len(statuses) == 1 && statuses[0].State.Running != nil && !*statuses[0].Started
		}))
		must(t, n.runsAre("granted", "vdi-guard")(ctx))
		n.grant(t, "granted")
		eventually(ctx, t, podIs(n.ControlPlane, "granted", podReady))
		p, err := pods.Get(ctx, "granted", metav1.GetOptions{})
		must(t, err)
		if p.Status.HostIP == "" || p.Status.StartTime == nil || p.Status.ContainerStatuses[0].State.Running == nil {
			t.Errorf("%+v", p.Status)
		}
		eventually(ctx, t, func(context.Context) error {
			conn, err := net.Dial("tcp", net.JoinHostPort(p.Status.PodIP, "8098"))
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
		runs, err := n.runs("granted")
		must(t, err)
		if r := runs[1]; r.Session != "granted" || r.Epoch != "7" || r.Node != p.Spec.NodeName || r.PodUID != string(p.UID) {
			t.Errorf("%+v", r)
		}
	})

	t.Run("ends a desktop whose guard requires it, and its Pod permanently", func(t *testing.T) {
		n.grant(t, "ended")
		create("ended", n.guarded)
		eventually(ctx, t, podIs(n.ControlPlane, "ended", podReady))
		must(t, os.Remove(n.lease("ended")))
		eventually(ctx, t, podIs(n.ControlPlane, "ended", phase(corev1.PodFailed)))
		must(t, n.runsAre("ended", "vdi-guard+0, desktop+143")(ctx))
		runs, err := n.runs("ended")
		must(t, err)
		if guard, desktop := runs[0], runs[1]; !strings.Contains(desktop.Why, "liveness") || guard.To < desktop.To {
			t.Errorf("%+v", runs)
		}
	})

	t.Run("ends it without an API server too, and reports it when there is one", func(t *testing.T) {
		n.grant(t, "alone")
		create("alone", n.guarded)
		create("undisturbed")
		eventually(ctx, t, podIs(n.ControlPlane, "alone", podReady))
		eventually(ctx, t, podIs(n.ControlPlane, "undisturbed", podReady))
		must(t, n.APIServer.Kill())
		must(t, os.Remove(n.lease("alone")))
		eventually(ctx, t, n.runsAre("alone", "vdi-guard+0, desktop+143"))
		must(t, n.runsAre("undisturbed", "desktop")(ctx))
		must(t, n.APIServer.Start())
		must(t, n.WaitAPI(ctx))
		eventually(ctx, t, podIs(n.ControlPlane, "alone", phase(corev1.PodFailed)))
		create("later")
		eventually(ctx, t, podIs(n.ControlPlane, "later", podReady))
	})

	t.Run("grants a desktop its grace period, and keeps the object until it has ended", func(t *testing.T) {
		n.grant(t, "saving")
		create("saving", n.guarded, stopsAfter("500ms"))
		create("hanging", stopsAfter("1h"))
		for name, want := range map[string]string{"saving": "vdi-guard+0, desktop+143", "hanging": "desktop+137"} {
			eventually(ctx, t, podIs(n.ControlPlane, name, podReady))
			must(t, pods.Delete(ctx, name, metav1.DeleteOptions{}))
			eventually(ctx, t, func(ctx context.Context) error {
				if err := podGone(n.ControlPlane, name)(ctx); err != nil {
					return err
				}
				// Once a client finds the object deleted, the log has all ends.
				if err := n.runsAre(name, want)(ctx); err != nil {
					t.Error(err)
				}
				return nil
			})
		}
	})

	t.Run("runs on for its grace when the object is forced away", func(t *testing.T) {
		create("forced", stopsAfter("1h"))
		eventually(ctx, t, podIs(n.ControlPlane, "forced", podReady))
		must(t, pods.Delete(ctx, "forced", *metav1.NewDeleteOptions(0)))
		must(t, podGone(n.ControlPlane, "forced")(ctx))
		eventually(ctx, t, n.runsAre("forced", "desktop+137"))
		runs, err := n.runs("forced")
		must(t, err)
		if grace := time.Duration(runs[0].To - runs[0].StoppedAt); runs[0].Why != "deleted" || grace < 2*time.Second {
			t.Errorf("%s, stopped for %q, after %s", runs[0], runs[0].Why, grace)
		}
	})

	t.Run("restarts what ends by itself, as its policy requires", func(t *testing.T) {
		image := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "crash.invalid/desktop:1" }
		never := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
		create("again", image)
		create("once", image, never)
		eventually(ctx, t, podIs(n.ControlPlane, "again", waitsFor("CrashLoopBackOff")))
		eventually(ctx, t, podIs(n.ControlPlane, "again", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount > 1 }))
		eventually(ctx, t, podIs(n.ControlPlane, "once", phase(corev1.PodFailed)))
		must(t, n.runsAre("once", "desktop+1")(ctx))
	})

	t.Run("starts a guard again that has ended", func(t *testing.T) {
		pid, found := guardOf(n.lease("granted"))
		if !found {
			t.Fatal("there is no guard")
		}
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		eventually(ctx, t, n.runsAre("granted", "vdi-guard+137, desktop, vdi-guard"))
	})

	t.Run("gets no events of its Pods on a lost node, and keeps them running", func(t *testing.T) {
		create("silent")
		eventually(ctx, t, podIs(n.ControlPlane, "silent", podReady))
		p, err := pods.Get(ctx, "silent", metav1.GetOptions{})
		must(t, err)
		must(t, n.LoseNode(ctx, p.Spec.NodeName))
		must(t, pods.Delete(ctx, "silent", *metav1.NewDeleteOptions(0)))
		// Once a later Pod runs on the other node, this event would have been handled.
		create("other", func(other *corev1.Pod) { other.Spec.NodeName = otherNode(p.Spec.NodeName) })
		eventually(ctx, t, podIs(n.ControlPlane, "other", podReady))
		must(t, n.runsAre("silent", "desktop")(ctx))
		must(t, n.RestoreNode(ctx, p.Spec.NodeName))
		eventually(ctx, t, n.runsAre("silent", "desktop+143"))
		eventually(ctx, t, podIs(n.ControlPlane, "undisturbed", podReady))
	})
}

func TestPowerCut(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	n := startNodes(ctx, t)
	n.grant(t, "guarded")
	createPod(ctx, t, n.ControlPlane, n.desktop("guarded", n.guarded))
	createPod(ctx, t, n.ControlPlane, n.desktop("restarts"))
	createPod(ctx, t, n.ControlPlane, n.desktop("deleted", stopsAfter("1h"), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = new(int64(36000))
	}))
	names := []string{"guarded", "restarts", "deleted"}
	for _, name := range names {
		eventually(ctx, t, podIs(n.ControlPlane, name, podReady))
	}
	must(t, n.Client.CoreV1().Pods("desktops").Delete(ctx, "deleted", metav1.DeleteOptions{}))

	member := &harness.Member{Name: n.Name, ControlPlane: n.ControlPlane}
	must(t, member.PowerOff())
	for _, process := range n.Processes() {
		if process.Running() {
			t.Errorf("%s has power", process.Spec.Name)
		}
	}
	eventually(ctx, t, func(context.Context) error {
		if pid, found := guardOf(n.lease("guarded")); found {
			return fmt.Errorf("the guard has power: %d", pid)
		}
		return nil
	})
	must(t, n.runsAre("guarded", "vdi-guard+cut, desktop+cut")(ctx))
	must(t, n.runsAre("deleted", "desktop+cut")(ctx))

	must(t, member.PowerOn(ctx))
	eventually(ctx, t, podIs(n.ControlPlane, "guarded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }))
	eventually(ctx, t, podIs(n.ControlPlane, "restarts", func(p *corev1.Pod) bool {
		return podReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	}))
	eventually(ctx, t, podGone(n.ControlPlane, "deleted"))
	must(t, n.runsAre("restarts", "desktop+cut, desktop")(ctx))

	must(t, n.PowerOffNodes())
	must(t, n.runsAre("restarts", "desktop+cut, desktop+cut")(ctx))
	must(t, n.PowerOnNodes(ctx))
	eventually(ctx, t, n.runsAre("restarts", "desktop+cut, desktop+cut, desktop"))
	must(t, n.WaitNodesReady(ctx, 2))
	history, err := observer.Read(n.ContainerLog())
	must(t, err)
	if overlaps := history.Overlaps(nil); len(overlaps) > 0 {
		t.Error(overlaps)
	}
}

// A restored etcd lacks newer objects and has deleted ones again.
func TestKubeletAcceptsARestoredEtcd(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	n := startNodes(ctx, t)
	pods := n.Client.CoreV1().Pods("desktops")
	never := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	createPod(ctx, t, n.ControlPlane, n.desktop("old", never))
	eventually(ctx, t, podIs(n.ControlPlane, "old", podReady))
	must(t, n.SaveEtcd(ctx, "before"))
	must(t, pods.Delete(ctx, "old", metav1.DeleteOptions{}))
	eventually(ctx, t, podGone(n.ControlPlane, "old"))
	createPod(ctx, t, n.ControlPlane, n.desktop("new", never))
	eventually(ctx, t, podIs(n.ControlPlane, "new", podReady))
	must(t, n.RestoreEtcd(ctx, "before"))
	eventually(ctx, t, n.runsAre("new", "desktop+143"))
	eventually(ctx, t, podIs(n.ControlPlane, "old", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }))
	if _, err := pods.Get(ctx, "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	must(t, n.runsAre("old", "desktop+143")(ctx))
}

func stopsAfter(d string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["harness.vdi.kasm.io/stop-delay"] = d }
}

func otherNode(name string) string {
	nodes := []string{"node-eu-west-a-0", "node-eu-west-a-1"}
	return nodes[1-slices.Index(nodes, name)]
}

// guardOf returns the process of the guard that uses a lease file.
func guardOf(lease string) (pid int, found bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), "--lease="+lease+"\x00") {
			_, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid)
			return pid, err == nil
		}
	}
	return 0, false
}
