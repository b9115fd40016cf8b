package harness_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// runFake runs the fake of the program that this binary is called as, if there is one: enough
// to check what the harness passes to the real one.
func runFake() bool {
	flags := map[string]string{}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	var err error
	switch filepath.Base(os.Args[0]) {
	case "hub":
		err = fakeHub(flags)
	case "agent":
		switch {
		case len(os.Args) > 1 && os.Args[1] == "guard":
			err = fakeGuard(flags)
		case len(os.Args) > 1 && os.Args[1] == "gate":
			err = fakeGate(flags)
		default:
			err = fakeAgent(flags)
		}
	case "fleet":
		err = fakeFleet(flags)
	default:
		return false
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
	return true
}

// fakeHub listens for agents once it has the lock, and sets each member Ready whose agent has
// connected.
func fakeHub(flags map[string]string) error {
	if why := os.Getenv("FAKE_HUB_FAILS"); why != "" {
		return fmt.Errorf("fake hub fails: %s", why)
	}
	go serveReady(flags)
	lock, err := os.OpenFile(flags["kubeconfig"]+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // or the garbage collector would close it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	config, err := linkTLS(flags, flags["client-ca-file"])
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", flags["link-bind-address"], config)
	if err != nil {
		return err
	}
	if err := labelPods(flags); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := admit(conn.(*tls.Conn), flags); err != nil {
				fmt.Fprintln(os.Stderr, "refused:", err)
			}
		}()
	}
}

// labelPods sets the leader's label on its own Pod, and removes it from the others.
func labelPods(flags map[string]string) error {
	config, err := clientcmd.BuildConfigFromFlags("", flags["kubeconfig"])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(os.Getenv("POD_NAMESPACE"))
	list, err := pods.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		label := "null"
		if pod.Name == os.Getenv("POD_NAME") {
			label = `"leader"`
		}
		patch := fmt.Sprintf(`{"metadata":{"labels":{"vdi.kasm.io/hub-role":%s}}}`, label)
		if _, err := pods.Patch(context.Background(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func admit(conn *tls.Conn, flags map[string]string) error {
	if err := conn.Handshake(); err != nil {
		return err
	}
	uris := conn.ConnectionState().PeerCertificates[0].URIs
	if len(uris) != 1 || uris[0].Host != flags["trust-domain"] {
		return fmt.Errorf("URIs %v", uris)
	}
	uid := strings.Split(uris[0].Path, "/")[2]
	config, err := clientcmd.BuildConfigFromFlags("", flags["kubeconfig"])
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	members := client.Resource(schema.GroupVersionResource{Group: "vdi.kasm.io", Version: "v1alpha1", Resource: "memberclusters"})
	list, err := members.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, member := range list.Items {
		if string(member.GetUID()) != uid {
			continue
		}
		status := &v1alpha1.MemberClusterStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Fake", LastTransitionTime: metav1.Now(),
		}}}
		if member.Object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(status); err != nil {
			return err
		}
		if _, err := members.UpdateStatus(context.Background(), &member, metav1.UpdateOptions{}); err != nil {
			return err
		}
		_, _ = conn.Read(make([]byte, 1)) // until the agent disconnects
		return nil
	}
	return fmt.Errorf("no member has uid %s", uid)
}

// fakeAgent stays connected to the hub, whichever replica leads.
func fakeAgent(flags map[string]string) error {
	go serveReady(flags)
	config, err := linkTLS(flags, flags["hub-ca-file"])
	if err != nil {
		return err
	}
	config.ServerName = flags["hub-server-name"]
	for {
		conn, err := tls.Dial("tcp", flags["hub-address"], config)
		if err == nil {
			fmt.Println("connected")
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func linkTLS(flags map[string]string, caFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(flags["tls-cert-file"], flags["tls-key-file"])
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}, nil
}

func serveReady(flags map[string]string) {
	for _, flag := range []string{"metrics-bind-address", "health-probe-bind-address"} {
		listener, err := net.Listen("tcp", flags[flag])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() {
			_ = http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		}()
	}
}

// fakeRoot makes a repository's root with the real control plane and fake programs.
func fakeRoot(dir string) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	links := map[string]string{"bin/hub": self, "bin/agent": self, "bin/fleet": self, "deploy": filepath.Join(root, "deploy")}
	for _, name := range []string{"controlplane", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"} {
		links["bin/"+name] = filepath.Join(root, "bin", name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
