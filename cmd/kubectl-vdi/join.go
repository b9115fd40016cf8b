package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// hubService is the name of the hub's Service in its chart.
const hubService = "vdi-hub"

// joinOptions describe the member, and the address of the hub for its agent.
type joinOptions struct {
	spec            v1alpha1.MemberClusterSpec
	taints          []string
	hub, serverName string
	caHashes        []string
	// agentNamespace is the agent's namespace in the member.
	agentNamespace string
}

func joinCommand(c *cluster) *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use:   "join NAME --region REGION --ingress-domain DOMAIN",
		Short: "Register a member, and print the command that installs its agent",
		Long: "Register a member in the hub's cluster, and print the command that installs its agent and a token that joins\n" +
			"one agent within an hour. Run it again with the same flags for another token. With -o manifest it prints the\n" +
			"Secret with which an agent joins, and its namespace, for an agent that Helm installs.",
		Example: "  kubectl vdi join eu-west --region eu-west --ingress-domain eu.desktops.example.com --hub hub.example.com:8443\n" +
			"  kubectl vdi join eu-west --region eu-west --ingress-domain eu.desktops.example.com -o manifest | kubectl --context MEMBER apply --server-side -f -",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.join(cmd, args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.spec.Region, "region", "", "Region of the member.")
	flags.StringVar(&o.spec.IngressDomain, "ingress-domain", "", "Domain of the sessions' hosts.")
	flags.StringVar(&o.spec.Zone, "zone", "", "Zone of the member, if any.")
	flags.StringSliceVar(&o.taints, "taint", nil, "Taint key=value:effect with the effect NoSchedule or PreferNoSchedule; may be given several times.")
	flags.StringVar(&o.hub, "hub", "", "Host and port of the hub's endpoint for agents; by default the load balancer of the Service vdi-hub.")
	flags.StringVar(&o.serverName, "hub-server-name", "", "Name in the hub's certificate; by default the host of --hub, or vdi-hub.NAMESPACE.svc if the address is the Service's.")
	flags.StringSliceVar(&o.caHashes, "ca-hash", nil, "Hash of the hub's CA; by default those of the Secret vdi-hub-ca.")
	flags.StringVar(&o.agentNamespace, "agent-namespace", agentNamespace, "Namespace of the agent in the member, with -o manifest.")
	for _, name := range []string{"region", "ingress-domain"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag that is not defined above
		}
	}
	return cmd
}

// joined is the result of join.
type joined struct {
	Member     string    `json:"member"`
	UID        string    `json:"uid"`
	Created    bool      `json:"created"`
	Hub        string    `json:"hub"`
	ServerName string    `json:"serverName,omitempty"`
	CAHashes   []string  `json:"caHashes"`
	Token      string    `json:"token"`
	Expires    time.Time `json:"expires"`
	Command    string    `json:"command"`
}

func (c *cluster) join(cmd *cobra.Command, name string, o joinOptions) error {
	ctx := cmd.Context()
	var err error
	if o.spec.Taints, err = taints(o.taints); err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.findHub(ctx, api, &o); err != nil {
		return err
	}
	member, created, err := register(ctx, api, name, o.spec)
	if err != nil {
		return err
	}
	result := joined{
		Member: name, UID: string(member.UID), Created: created, Hub: o.hub, ServerName: o.serverName, CAHashes: o.caHashes,
		Expires: time.Now().Add(v1alpha1.JoinTokenLifetime).Truncate(time.Second).UTC(),
	}
	if result.Token, err = c.newToken(ctx, api, member, result.Expires); err != nil {
		return err
	}
	if c.output == outputManifest {
		return printManifest(cmd.OutOrStdout(), result, o.agentNamespace)
	}
	result.Command = installLine(result)
	verb := "is already registered"
	if created {
		verb = "is registered"
	}
	return c.printResult(cmd.OutOrStdout(), result, fmt.Sprintf(
		"Member %s %s. Install its agent with this command, once and within an hour:\n\n  %s\n\n"+
			"Replace MEMBER by the member's context. The command reads the join token from standard input, which keeps it\n"+
			"out of the process list and the shell's history:\n\n  %s\n\nThen watch: kubectl get membercluster %s -w",
		name, verb, result.Command, result.Token, name))
}

// installLine returns the command that installs the agent. The token is not an argument, since
// those are in the process list and the shell's history.
func installLine(j joined) string {
	args := []string{"kubectl vdi install-agent --context MEMBER", "--member " + j.Member, "--hub " + j.Hub}
	if j.ServerName != "" {
		args = append(args, "--hub-server-name "+j.ServerName)
	}
	return strings.Join(append(args, "--ca-hash "+strings.Join(j.CAHashes, ","), "--token -"), " ")
}

// register creates the MemberCluster, or returns an existing equal one.
func register(ctx context.Context, api client.Client, name string, spec v1alpha1.MemberClusterSpec) (*v1alpha1.MemberCluster, bool, error) {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	err := api.Create(ctx, member)
	if err == nil {
		return member, true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, explain(err, "creating MemberCluster "+name)
	}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
		return nil, false, explain(err, "reading MemberCluster "+name)
	}
	switch {
	case member.DeletionTimestamp != nil:
		return nil, false, fmt.Errorf("MemberCluster %s is being deleted: wait until it is gone", name)
	case member.Spec.Access == v1alpha1.AccessRevoked:
		return nil, false, fmt.Errorf("MemberCluster %s is revoked: run `kubectl vdi allow %s` first", name, name)
	}
	for _, field := range []struct {
		flag    string
		is, was any
	}{
		{"region", spec.Region, member.Spec.Region}, {"zone", spec.Zone, member.Spec.Zone},
		{"ingress-domain", spec.IngressDomain, member.Spec.IngressDomain}, {"taint", spec.Taints, member.Spec.Taints},
	} {
		if !equality.Semantic.DeepEqual(field.is, field.was) {
			return nil, false, fmt.Errorf("MemberCluster %s exists with another --%s (%v instead of %v): use the same, or edit it first",
				name, field.flag, field.was, field.is)
		}
	}
	return member, false, nil
}

// newToken returns a token for a member; the hub's cluster stores only its hash.
func (c *cluster) newToken(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster, expires time.Time) (string, error) {
	random := func(bytes int) string {
		b := make([]byte, bytes)
		_, _ = rand.Read(b) // never fails
		return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
	}
	id := random(5)
	token := id + "." + random(32)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: v1alpha1.JoinTokenPrefix + id,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: member.Name, UID: member.UID,
			}},
		},
		Type: v1alpha1.JoinTokenType,
		Data: map[string][]byte{
			v1alpha1.JoinTokenMember:    []byte(member.Name),
			v1alpha1.JoinTokenMemberUID: []byte(member.UID),
			v1alpha1.JoinTokenHash:      []byte(v1alpha1.JoinTokenSum(token)),
			v1alpha1.JoinTokenExpires:   []byte(expires.Format(time.RFC3339)),
		},
	}
	if err := api.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("creating the join token in namespace %s: %w", c.namespace, err)
	}
	return token, nil
}

// findHub sets the hub's address and CA.
func (c *cluster) findHub(ctx context.Context, api client.Client, o *joinOptions) error {
	if o.hub == "" {
		service := &corev1.Service{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: hubService}, service); err != nil {
			return fmt.Errorf("reading the hub's address, which --hub can set: %w", err)
		}
		if o.hub = loadBalancerOf(service); o.hub == "" {
			return fmt.Errorf("service %s/%s has no load balancer address: set the hub's host and port with --hub", c.namespace, hubService)
		}
		if o.serverName == "" {
			o.serverName = hubService + "." + c.namespace + ".svc"
		}
	}
	if _, _, err := net.SplitHostPort(o.hub); err != nil {
		return fmt.Errorf("--hub %q is not host:port", o.hub)
	}
	if len(o.caHashes) > 0 {
		return checkHashes(o.caHashes)
	}
	secret := &corev1.Secret{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.AuthoritySecret}, secret); err != nil {
		return fmt.Errorf("reading the hub's CA (check that the hub runs and issues certificates itself, or set --ca-hash): %w", err)
	}
	bundle := secret.Data[v1alpha1.AuthorityBundle]
	if len(bundle) == 0 {
		bundle = secret.Data[v1alpha1.AuthorityCertificate]
	}
	var err error
	if o.caHashes, err = hashesOf(bundle); err != nil {
		return fmt.Errorf("reading the hub's CA from Secret %s/%s: %w", c.namespace, v1alpha1.AuthoritySecret, err)
	}
	return nil
}

func loadBalancerOf(service *corev1.Service) string {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		host := ingress.Hostname
		if host == "" {
			host = ingress.IP
		}
		if host != "" && len(service.Spec.Ports) > 0 {
			return net.JoinHostPort(host, strconv.Itoa(int(service.Spec.Ports[0].Port)))
		}
	}
	return ""
}

// hashesOf returns the hashes of a bundle's certificates.
func hashesOf(bundle []byte) ([]string, error) {
	var found []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, err
		}
		found = append(found, v1alpha1.CertificateHash(block.Bytes))
	}
	if len(found) == 0 {
		return nil, errors.New("it has no certificate")
	}
	return found, nil
}

// taints parses key=value:effect and key:effect.
func taints(texts []string) ([]corev1.Taint, error) {
	var read []corev1.Taint
	for _, text := range texts {
		pair, effect, found := strings.Cut(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		known := taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectPreferNoSchedule
		if !found || key == "" || !known {
			return nil, fmt.Errorf("--taint %q is not key=value:NoSchedule or key=value:PreferNoSchedule", text)
		}
		read = append(read, taint)
	}
	return read, nil
}
