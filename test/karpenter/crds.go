package main

import (
	"fmt"
	"io"

	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	"sigs.k8s.io/karpenter/pkg/apis"
)

// writeCRDs writes the CRDs of Karpenter and of its KWOK provider as YAML documents. They are
// those that the Karpenter module embeds, so they always fit this command.
func writeCRDs(to io.Writer) error {
	for _, crd := range [][]byte{apis.NodePoolCRD, apis.NodeClaimCRD, kwokapis.KWOKNodeClassCRD} {
		if _, err := fmt.Fprintf(to, "---\n%s\n", crd); err != nil {
			return fmt.Errorf("writing the CRDs: %w", err)
		}
	}
	return nil
}
