package main

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// outputManifest is the --output of join for the manifest of an agent's bootstrap Secret.
const outputManifest = "manifest"

// printManifest prints the Secret with which an agent joins, and its namespace, for
// `kubectl apply --server-side -f -`: client-side apply would store the token in an annotation.
func printManifest(out io.Writer, j joined, namespace string) error {
	o := installOptions{member: j.Member, hub: j.Hub, serverName: j.ServerName, token: j.Token, caHashes: j.CAHashes}
	secret, err := o.bootstrap(namespace)
	if err != nil {
		return err
	}
	for _, object := range []*unstructured.Unstructured{namespaceNamed(namespace, nil), secret} {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("printing %s: %w", object.GetName(), err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
