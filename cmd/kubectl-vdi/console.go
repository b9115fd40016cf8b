package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// consoleCommand returns the command that opens the console.
func consoleCommand(c *cluster) *cobra.Command {
	var in, address string
	var noBrowser bool
	cmd := &cobra.Command{
		Use: "console", Short: "Open the console in a browser, logged in as the kubeconfig's user", Args: cobra.NoArgs,
		Long: "Open the console in a browser, logged in as the kubeconfig's user. The user needs permission to create\n" +
			"accesstickets in a namespace of sessions (ClusterRole vdi-user).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			link, err := c.consoleLink(cmd.Context(), api, address, in)
			if err != nil {
				return err
			}
			text := "Open this address within a minute: " + link
			if !noBrowser && c.output != "json" && openBrowser(link) == nil {
				text = "The console opens in your browser. If it does not, open this address within a minute: " + link
			}
			return c.printResult(cmd.OutOrStdout(), map[string]any{"url": link}, text)
		},
	}
	cmd.Flags().StringVar(&in, "session-namespace", "", "Namespace of your sessions; by default that of the kubeconfig's context.")
	cmd.Flags().StringVar(&address, "url", "", "Address of the console; by default that of ConfigMap vdi-console in the hub's namespace.")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "Print the address, and open no browser.")
	return cmd
}

// consoleLink creates a ticket, and returns the address by which a browser redeems it.
func (c *cluster) consoleLink(ctx context.Context, api client.Client, address, namespace string) (string, error) {
	if address == "" {
		published := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.ConsoleConfigMap}
		if err := api.Get(ctx, key, published); err != nil {
			return "", explain(err, fmt.Sprintf("reading the console's address from ConfigMap %s (set --url, or install the console: chart value console.enabled)", key))
		}
		if address = published.Data[v1alpha1.ConsoleURLKey]; address == "" {
			return "", fmt.Errorf("ConfigMap %s has no %s: set --url", key, v1alpha1.ConsoleURLKey)
		}
	}
	if namespace == "" {
		var err error
		if namespace, _, err = c.config().Namespace(); err != nil {
			return "", fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	me := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(ctx, me); err != nil {
		return "", explain(err, "reading your user name from the hub's cluster")
	}
	secret := rand.Text() + rand.Text()
	ticket := &v1alpha1.AccessTicket{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "console-"},
		Spec: v1alpha1.AccessTicketSpec{
			Access: v1alpha1.AccessConsole, User: me.Status.UserInfo.Username, Groups: ticketGroups(me.Status.UserInfo.Groups),
			Challenge: v1alpha1.TicketChallenge(secret),
		},
	}
	if ticket.Spec.User == "" {
		return "", errors.New("the hub's cluster reports no user name, which a login requires")
	}
	if err := api.Create(ctx, ticket); err != nil {
		return "", explain(err, fmt.Sprintf("creating an AccessTicket in namespace %s (--session-namespace)", namespace))
	}
	return fmt.Sprintf("%s/t/%s/%s#%s", strings.TrimSuffix(address, "/"), ticket.Namespace, ticket.Name, secret), nil
}

// ticketGroups returns the groups of a ticket: a login has none of Kubernetes itself.
func ticketGroups(groups []string) []string {
	var out []string
	for _, group := range groups {
		if !strings.HasPrefix(group, "system:") {
			out = append(out, group)
		}
	}
	return out
}

// openBrowser opens an address in the user's browser.
func openBrowser(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	return exec.Command(name, args...).Start()
}
