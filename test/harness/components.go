package harness

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// The stages of KWOK's simulated Pods and Nodes.
var (
	//go:embed kwok/pods.yaml
	kwokPods string
	//go:embed kwok/nodes.yaml
	kwokNodes string
)

// The users that the components are in audit logs. kcm holds every controller's
// rights, KWOK every kubelet's.
var (
	adminIdentity     = identity{"admin", []string{"system:masters"}}
	kcmIdentity       = identity{"system:kube-controller-manager", []string{"system:masters"}}
	schedulerIdentity = identity{"system:kube-scheduler", nil}
	kwokIdentity      = identity{"kwok", []string{"system:masters"}}
	kubeletIdentity   = identity{"kubelet", []string{"system:masters"}}
)

// auditPolicy has every write logged, and all that hub and agents ask for.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  users: ["` + HubUser + `", "` + AgentUser + `"]
- level: None
`

// Nobody needs to be anonymous but who asks for health.
const authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
`

const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 2000, burst: 4000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 5
`

// nodeLease is how long a node's lease holds, in seconds; KWOK renews it four
// times as often. nodeGrace is when the controller manager gives a node up.
const (
	nodeLease = 80
	nodeGrace = "120s"
)

// SpareCPU is what, in the environment of a process, lets it take memory, of which
// the machine has enough, for CPU, of which tests never have: a busy API server
// spends a sixth of its time on collecting garbage otherwise. All components of a
// control plane have it; hub and agents only by Options.Env, since they are measured.
func SpareCPU() []string { return []string{"GOGC=400", "GOMEMLIMIT=640MiB"} }

func (cp *ControlPlane) etcdArgs() []string {
	client := "http://127.0.0.1:" + strconv.Itoa(cp.ports.etcd)
	peer := "http://127.0.0.1:" + strconv.Itoa(cp.ports.etcdPeer)
	return []string{
		"--name=default",
		"--data-dir=" + filepath.Join(cp.Dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
	}
}

func (cp *ControlPlane) apiServerArgs() []string {
	pki := func(name string) string { return filepath.Join(cp.Dir, "pki", name) }
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(cp.ports.etcd),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(cp.ports.api),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--authentication-config=" + filepath.Join(cp.Dir, "authentication.yaml"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-account.crt"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--allow-privileged=true",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
		// It asks whether who sets an owner that is not to be deleted first may do that.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--audit-policy-file=" + filepath.Join(cp.Dir, "audit-policy.yaml"),
		"--audit-log-path=" + cp.AuditLog(),
		"--audit-log-maxsize=100000", // MB: never rotated
	}
	if cp.options.APIOnly {
		// Nobody would make the service accounts that it insists on.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, cp.options.APIServerArgs...)
}

func (cp *ControlPlane) controllerManagerArgs() []string {
	args := []string{
		"--kubeconfig=" + cp.componentKubeconfig(kcmIdentity),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + filepath.Join(cp.Dir, "pki", "service-account.key"),
		"--root-ca-file=" + filepath.Join(cp.Dir, "pki", "ca.crt"),
		"--node-monitor-grace-period=" + nodeGrace,
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
	if cp.options.NoScheduling {
		// Nobody renews the leases of its nodes: see hubpods.go.
		args = append(args, "--controllers=*,-node-lifecycle-controller")
	}
	return args
}

func (cp *ControlPlane) schedulerArgs() []string {
	return []string{
		"--config=" + filepath.Join(cp.Dir, "scheduler.yaml"),
		"--secure-port=0",
	}
}

func (cp *ControlPlane) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + cp.componentKubeconfig(kwokIdentity),
		"--config=" + filepath.Join(cp.Dir, "kwok.yaml"),
		"--manage-nodes-with-annotation-selector=" + nodeAnnotation + "=fake",
		"--node-lease-duration-seconds=" + strconv.Itoa(nodeLease),
		"--cidr=10.128.0.0/9",
	}
}

func (cp *ControlPlane) componentKubeconfig(who identity) string {
	return filepath.Join(cp.Dir, fileName(who.user)+".kubeconfig")
}

// writeFiles stores all that the components read: certificates, kubeconfigs,
// configurations.
func (cp *ControlPlane) writeFiles() error {
	if err := cp.writePKI(); err != nil {
		return err
	}
	for _, who := range []identity{adminIdentity, kcmIdentity, schedulerIdentity, kwokIdentity, kubeletIdentity} {
		if _, err := cp.KubeconfigFor(who.user, who.groups...); err != nil {
			return err
		}
	}
	for name, content := range map[string][]byte{
		"audit-policy.yaml":   []byte(auditPolicy),
		"authentication.yaml": []byte(authentication),
		"scheduler.yaml":      fmt.Appendf(nil, schedulerConfig, cp.componentKubeconfig(schedulerIdentity)),
		"kwok.yaml":           []byte(cp.kwokStages()),
	} {
		if err := os.WriteFile(filepath.Join(cp.Dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
