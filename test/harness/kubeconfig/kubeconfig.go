package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

// User is a user of one cluster, and its groups.
type User struct {
	Name   string
	Groups []string
}

// Issuer issues the credentials of one cluster.
type Issuer struct {
	// Name is the name of the cluster and of its context.
	Name string
	// Dir holds the kubeconfigs.
	Dir string
	// URL is the API server's.
	URL string
	// CA signs every client of this API server and no other's.
	CA *pki.CA
}

// KubeconfigFor issues a client certificate for the user (its CN) and groups
// (its O) and writes a kubeconfig with it. It returns the path. The user has no
// rights until RBAC grants it some; the group system:masters has them all.
func (i *Issuer) KubeconfigFor(user string, groups ...string) (string, error) {
	return i.WriteKubeconfig(i.Name, User{user, groups})
}

// WriteKubeconfig writes the kubeconfig of KubeconfigFor with another name of the context.
func (i *Issuer) WriteKubeconfig(context string, user User) (string, error) {
	config, err := i.credentials(context, user)
	if err != nil {
		return "", err
	}
	path := i.KubeconfigPath(user)
	if err := writeKubeconfig(path, config); err != nil {
		return "", err
	}
	return path, nil
}

// KubeconfigPath returns where WriteKubeconfig stores the kubeconfig of a user.
func (i *Issuer) KubeconfigPath(user User) string {
	return filepath.Join(i.Dir, fileName(user.Name)+".kubeconfig")
}

// ConfigFor returns a rest.Config for the user of KubeconfigFor, whose client-side limits
// are too high to matter.
func (i *Issuer) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	config, err := i.credentials(i.Name, User{user, groups})
	if err != nil {
		return nil, err
	}
	return restConfig(config)
}

func (i *Issuer) credentials(context string, user User) (*clientcmdapi.Config, error) {
	pair, err := i.CA.Issue(pki.CertRequest{CommonName: user.Name, Organizations: user.Groups})
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[i.Name] = &clientcmdapi.Cluster{Server: i.URL, CertificateAuthorityData: i.CA.CertPEM}
	entry := i.Name + "-" + user.Name
	config.AuthInfos[entry] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	config.Contexts[context] = &clientcmdapi.Context{Cluster: i.Name, AuthInfo: entry}
	config.CurrentContext = context
	return config, nil
}

// Load returns the rest.Config of a kubeconfig file, with the limits of ConfigFor.
func Load(path string) (*rest.Config, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return restConfig(config)
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

// Merge writes one kubeconfig with the contexts of all files.
func Merge(path, current string, files []string) error {
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

// fileName returns a file name for a user name, which may contain slashes and colons.
func fileName(user string) string {
	name := []byte(user)
	for i, c := range name {
		if c == '/' || c == ':' || c == '@' {
			name[i] = '-'
		}
	}
	return string(name)
}
