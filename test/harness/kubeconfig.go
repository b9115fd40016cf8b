package harness

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

// identity is a user of one control plane.
type identity struct {
	user   string
	groups []string
}

// KubeconfigFor issues a client certificate for the user (its CN) and groups
// (its O) and writes a kubeconfig with it. It returns the path. The user has no
// rights until RBAC gives it some; the group system:masters has them all.
func (cp *ControlPlane) KubeconfigFor(user string, groups ...string) (string, error) {
	return cp.writeCredentials(cp.Name, identity{user, groups})
}

// writeCredentials is KubeconfigFor with the name of the context.
func (cp *ControlPlane) writeCredentials(context string, who identity) (string, error) {
	config, err := cp.credentials(context, who)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cp.Dir, fileName(who.user)+".kubeconfig")
	if err := writeKubeconfig(path, config); err != nil {
		return "", err
	}
	return path, nil
}

// ConfigFor is KubeconfigFor without a file: a rest.Config with client-side
// limits that do not matter.
func (cp *ControlPlane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	config, err := cp.credentials(cp.Name, identity{user, groups})
	if err != nil {
		return nil, err
	}
	return restConfig(config)
}

func (cp *ControlPlane) credentials(context string, who identity) (*clientcmdapi.Config, error) {
	pair, err := cp.CA.Issue(pki.CertRequest{CommonName: who.user, Organizations: who.groups})
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[cp.Name] = &clientcmdapi.Cluster{Server: cp.URL(), CertificateAuthorityData: cp.CA.CertPEM}
	user := cp.Name + "-" + who.user
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	config.Contexts[context] = &clientcmdapi.Context{Cluster: cp.Name, AuthInfo: user}
	config.CurrentContext = context
	return config, nil
}

func restConfig(config *clientcmdapi.Config) (*rest.Config, error) {
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	client.QPS, client.Burst = 1000, 2000
	return client, nil
}

func writeKubeconfig(path string, config *clientcmdapi.Config) error {
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}

// mergeKubeconfigs writes one file with the contexts of all of them.
func mergeKubeconfigs(path, current string, files []string) error {
	merged := clientcmdapi.NewConfig()
	for _, file := range files {
		config, err := clientcmd.LoadFromFile(file)
		if err != nil {
			return fmt.Errorf("merging kubeconfigs: %w", err)
		}
		for name, cluster := range config.Clusters {
			merged.Clusters[name] = cluster
		}
		for name, user := range config.AuthInfos {
			merged.AuthInfos[name] = user
		}
		for name, context := range config.Contexts {
			merged.Contexts[name] = context
		}
	}
	for _, cluster := range merged.Clusters {
		cluster.LocationOfOrigin = ""
	}
	merged.CurrentContext = current
	return writeKubeconfig(path, merged)
}

// fileName makes a file's name of a user's, which may hold slashes and colons.
func fileName(user string) string {
	name := []byte(user)
	for i, c := range name {
		if c == '/' || c == ':' || c == '@' {
			name[i] = '-'
		}
	}
	return string(name)
}
