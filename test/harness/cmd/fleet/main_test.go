package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// TestMain makes the test binary the fleet command when it is called with a
// subcommand: by the tests, and by the fleet for its proxies and provisioners.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

const claim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: home, namespace: desktops}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// desktop meets Pod Security restricted, which admitted namespaces enforce.
const desktop = `apiVersion: v1
kind: Pod
metadata: {name: desktop, namespace: desktops}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: desktop
    image: registry.example/desktop:1
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

func TestFleetInTheBackground(t *testing.T) {
	if testing.Short() {
		t.Skip("each command starts or stops real control planes")
	}
	dir := filepath.Join(t.TempDir(), "fleet")
	fleet := func(args ...string) string { return mustFleet(t, append(args, "--dir="+dir)...) }
	t.Cleanup(func() { fleet("down") })

	// The fleet outlives the command that started it, and works.
	up := fleet("up", "--members=1", "--nodes=2", "--no-fleet-processes", "--kubelets")
	expect(t, up, "the fleet is up: 1 members")
	expect(t, up, "export KUBECONFIG="+dir+"/kubeconfig")
	pids := allPIDs(t, dir)
	kubectl := func(args ...string) string { return runKubectl(t, dir, args...) }
	expect(t, kubectl("config", "get-contexts", "-o=name"), "alice\nbob\neu-west\nhub\noperator\n")
	file := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(file, []byte(claim), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl("--context=eu-west", "apply", "-f", file)
	kubectl("--context=eu-west", "-n=desktops", "wait", "pvc/home", "--for=jsonpath={.status.phase}=Bound", "--timeout=30s")

	refused, err := tryFleet(t, "up", "--dir="+dir)
	if err == nil {
		t.Error("a second fleet came up in the same directory")
	}
	expect(t, refused, "`make down` ends it")

	// It can be broken and restored from outside.
	expect(t, fleet("cut", "eu-west", "--mode=to-hub"), "eu-west is cut off")
	expect(t, fleet("status"), "cut (to-hub)")
	fleet("heal", "eu-west")
	expect(t, fleet("status"), "whole")
	fleet("kill", "eu-west-kube-scheduler")
	expect(t, stateOf(fleet("status"), "eu-west-kube-scheduler"), "ended")
	fleet("start", "eu-west-kube-scheduler")
	expect(t, stateOf(fleet("status"), "eu-west-kube-scheduler"), "running")
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte(desktop), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl("--context=eu-west", "apply", "-f", pod)
	kubectl("--context=eu-west", "-n=desktops", "wait", "pod/desktop", "--for=condition=Ready", "--timeout=30s")
	fleet("power-off", "eu-west")
	for _, process := range []string{"etcd", "kube-apiserver", "kubelet", "kwok"} {
		expect(t, stateOf(fleet("status"), "eu-west-"+process), "ended")
	}
	fleet("power-on", "eu-west")
	kubectl("--context=eu-west", "-n=desktops", "wait", "pod/desktop", "--for=jsonpath={.status.phase}=Failed", "--timeout=30s")
	kubectl("--context=eu-west", "-n=desktops", "delete", "pvc/home", "--wait=false")
	kubectl("--context=eu-west", "-n=desktops", "wait", "pvc/home", "--for=delete", "--timeout=30s")
	kubectl("--context=eu-west", "apply", "-f", file)
	kubectl("--context=eu-west", "-n=desktops", "wait", "pvc/home", "--for=jsonpath={.status.phase}=Bound", "--timeout=30s")
	fleet("pause", "eu-west-kwok")
	expect(t, stateOf(fleet("status"), "eu-west-kwok"), "paused")

	marks := filepath.Join(t.TempDir(), "marks")
	if err := os.WriteFile(marks, []byte(fleet("audit", "--mark")), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl("--context=eu-west", "-n=desktops", "create", "configmap", "counted")
	counts := fleet("audit", "--since=@"+marks, "--users=admin", "--sessions=2")
	expect(t, strings.Join(strings.Fields(counts), " "), "eu-west admin create configmaps 1 0 0.50")

	// Down ends all of its processes, restarted and paused ones too.
	pids = append(pids, allPIDs(t, dir)...)
	expect(t, fleet("down"), "removed "+dir)
	expectGone(t, dir, pids)
	expect(t, fleet("down"), "no fleet is up")
}

func TestInterruptedUpLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	cmd := exec.Command(os.Args[0], "up", "--dir="+dir, "--members=1", "--nodes=1", "--no-fleet-processes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(dir, "pids", "hub-kube-apiserver.pid")
	waitFor(t, func() error { _, err := os.Stat(pid); return err })
	pids := allPIDs(t, dir)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the interrupted command ended well")
	}
	expectGone(t, dir, pids)
}

func TestDownSparesWhatIsNotTheFleets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	for _, sub := range []string{"pids", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out := mustFleet(t, "down", "--dir="+dir); !strings.Contains(out, "no fleet is up") {
		t.Error(out)
	}
	// The pid of an earlier process that was reused, here by this one.
	stale := fmt.Sprintf(`{"pid":%d,"born":1,"spec":{"name":"hub-etcd","path":"/bin/etcd","dir":%q}}`, os.Getpid(), dir)
	for name, content := range map[string]string{"pids/hub-etcd.json": stale, "fleet.json": `{}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, mustFleet(t, "down", "--dir="+dir), "ended 0 processes")
}

func mustFleet(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryFleet(t, args...)
	if err != nil {
		t.Fatalf("fleet %v: %v\n%s", args, err, out)
	}
	return out
}

func tryFleet(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(os.Args[0], args...).CombinedOutput()
	return string(out), err
}

func runKubectl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func expect(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func stateOf(status, process string) string {
	for line := range strings.Lines(status) {
		if strings.HasPrefix(line, process+" ") {
			return line
		}
	}
	return ""
}

func allPIDs(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pids", "*.pid"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pid files: %v", err)
	}
	var pids []string
	for _, file := range files {
		if pid, err := os.ReadFile(file); err == nil {
			pids = append(pids, strings.TrimSpace(string(pid)))
		}
	}
	return pids
}

func expectGone(t *testing.T, dir string, pids []string) {
	t.Helper()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s still exists", dir)
	}
	waitFor(t, func() error {
		for _, pid := range pids {
			cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline") // empty for zombies
			if strings.Contains(string(cmdline), dir) {
				return fmt.Errorf("process %s is there: %.200q", pid, cmdline)
			}
		}
		return nil
	})
}

// waitFor polls until check returns nil.
func waitFor(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestNodePoolsOfMembers(t *testing.T) {
	options := harness.Options{Members: 2, NodesPerMember: 1}
	if err := addNodePools(&options, []string{"us-east/desktops", "us-east/gpus"}); err != nil {
		t.Fatal(err)
	}
	if options.MemberSpecs[0].Karpenter != nil {
		t.Error("a member has a Karpenter without asking for it")
	}
	grows := options.MemberSpecs[1].Karpenter
	if len(options.MemberSpecs) != 2 || grows == nil || len(grows.NodePools) != 2 || grows.NodePools[1].Labels["pool"] != "gpus" {
		t.Errorf("the members are %+v", options.MemberSpecs)
	}
	for _, wrong := range []string{"desktops", "nowhere/desktops"} {
		if err := addNodePools(&options, []string{wrong}); err == nil {
			t.Errorf("--node-pool %s was accepted", wrong)
		}
	}
}
