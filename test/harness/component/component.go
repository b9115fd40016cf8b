package component

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/test/harness/kubeconfig"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

// The users of the components in audit logs. ControllerManager has the rights of every
// controller, KWOK and Kubelet those of every kubelet, and Karpenter those of a cloud besides.
var (
	Admin             = kubeconfig.User{Name: "admin", Groups: []string{"system:masters"}}
	ControllerManager = kubeconfig.User{Name: "system:kube-controller-manager", Groups: []string{"system:masters"}}
	Scheduler         = kubeconfig.User{Name: "system:kube-scheduler"}
	KWOK              = kubeconfig.User{Name: "kwok", Groups: []string{"system:masters"}}
	Kubelet           = kubeconfig.User{Name: "kubelet", Groups: []string{"system:masters"}}
	Karpenter         = kubeconfig.User{Name: "karpenter", Groups: []string{"system:masters"}}
)

// Ports are the ports of the components of a cluster.
type Ports struct{ Etcd, EtcdPeer, API int }

// Cluster is the configuration of one control plane.
type Cluster struct {
	*kubeconfig.Issuer
	Ports Ports
	// APIOnly configures kube-apiserver for a cluster without a controller manager.
	APIOnly bool
	// NoScheduling configures the controller manager for nodes that no kubelet serves.
	NoScheduling bool
	// Kubelets restricts KWOK to the nodes; simulated kubelets run the Pods.
	Kubelets bool
	// ExtraAPIServerArgs are appended to those of kube-apiserver.
	ExtraAPIServerArgs []string
	// AuditedUsers are the users whose every request is in the audit log; at least one.
	AuditedUsers []string
}

// auditPolicy logs every write, and every request of some users.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  users: [%s]
- level: None
`

// authentication admits anonymous callers to the health endpoints only.
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

// nodeLease is the duration of a node's lease in seconds; KWOK renews it four times as often.
// nodeGrace is when the controller manager marks a node as lost.
const (
	nodeLease = 80
	nodeGrace = "120s"
)

// EtcdArgs returns the arguments of etcd.
func (c *Cluster) EtcdArgs() []string {
	client := "http://127.0.0.1:" + strconv.Itoa(c.Ports.Etcd)
	peer := "http://127.0.0.1:" + strconv.Itoa(c.Ports.EtcdPeer)
	return []string{
		"--name=default",
		"--data-dir=" + c.EtcdData(),
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

// APIServerArgs returns the arguments of kube-apiserver.
func (c *Cluster) APIServerArgs() []string {
	pki := func(name string) string { return filepath.Join(c.Dir, "pki", name) }
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(c.Ports.Etcd),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(c.Ports.API),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--authentication-config=" + filepath.Join(c.Dir, "authentication.yaml"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-account.crt"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--allow-privileged=true",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
		// Every five to seven minutes it would list all objects from etcd and compare them with its cache:
		// with 100,000 sessions that takes the cores that hub and agents are measured on for a minute.
		"--feature-gates=DetectCacheInconsistency=false",
		// It checks that a user who sets blockOwnerDeletion may change the finalizers of the owner.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--audit-policy-file=" + filepath.Join(c.Dir, "audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-maxsize=100000", // MB: never rotated
	}
	if c.APIOnly {
		// No controller makes the service accounts that it requires.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, c.ExtraAPIServerArgs...)
}

// ControllerManagerArgs returns the arguments of kube-controller-manager.
func (c *Cluster) ControllerManagerArgs() []string {
	args := []string{
		"--kubeconfig=" + c.KubeconfigPath(ControllerManager),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + filepath.Join(c.Dir, "pki", "service-account.key"),
		"--root-ca-file=" + filepath.Join(c.Dir, "pki", "ca.crt"),
		"--node-monitor-grace-period=" + nodeGrace,
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
	if c.NoScheduling {
		// No kubelet renews the leases of its nodes.
		args = append(args, "--controllers=*,-node-lifecycle-controller")
	}
	return args
}

// SchedulerArgs returns the arguments of kube-scheduler.
func (c *Cluster) SchedulerArgs() []string {
	return []string{
		"--config=" + filepath.Join(c.Dir, "scheduler.yaml"),
		"--secure-port=0",
	}
}

// KWOKArgs returns the arguments of KWOK.
func (c *Cluster) KWOKArgs() []string {
	return []string{
		"--kubeconfig=" + c.KubeconfigPath(KWOK),
		"--config=" + filepath.Join(c.Dir, "kwok.yaml"),
		"--manage-nodes-with-annotation-selector=" + kwok.Annotation + "=fake",
		"--node-lease-duration-seconds=" + strconv.Itoa(nodeLease),
		"--cidr=10.128.0.0/9",
	}
}

// WriteFiles stores all that the components read: certificates, kubeconfigs and
// configuration files.
func (c *Cluster) WriteFiles() error {
	if err := c.writePKI(); err != nil {
		return err
	}
	for _, user := range []kubeconfig.User{Admin, ControllerManager, Scheduler, KWOK, Kubelet} {
		if _, err := c.WriteKubeconfig(c.Name, user); err != nil {
			return err
		}
	}
	for name, content := range map[string][]byte{
		"audit-policy.yaml":   fmt.Appendf(nil, auditPolicy, quoted(c.AuditedUsers)),
		"authentication.yaml": []byte(authentication),
		"scheduler.yaml":      fmt.Appendf(nil, schedulerConfig, c.KubeconfigPath(Scheduler)),
		"kwok.yaml":           []byte(kwok.Stages(c.Kubelets)),
	} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// writePKI stores the certificates and keys of the API server.
func (c *Cluster) writePKI() error {
	dir := filepath.Join(c.Dir, "pki")
	if _, _, err := c.CA.Write(dir, "ca"); err != nil {
		return err
	}
	for name, request := range map[string]pki.CertRequest{
		"apiserver": {
			CommonName: "kube-apiserver",
			DNSNames:   []string{"localhost", "kubernetes", "kubernetes.default.svc"},
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		},
		"service-account": {CommonName: "service-account"},
	} {
		pair, err := c.CA.Issue(request)
		if err != nil {
			return err
		}
		if _, _, err := pair.Write(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// AuditLog returns the file of the API server's audit log, with a line for every write.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// EtcdData returns the data directory of etcd.
func (c *Cluster) EtcdData() string { return filepath.Join(c.Dir, "etcd") }

// EtcdCopy returns the directory of a copy of EtcdData.
func (c *Cluster) EtcdCopy(name string) string { return filepath.Join(c.Dir, "etcd-"+name) }

// quoted joins names as a list of YAML in flow style.
func quoted(names []string) string {
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, strconv.Quote(name))
	}
	return strings.Join(list, ", ")
}
