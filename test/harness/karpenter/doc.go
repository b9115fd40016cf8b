// Package karpenter configures bin/karpenter (test/karpenter) for a simulated cluster: its
// environment, instance types and NodePools, and the faults that its cloud has.
//
// # Invariants
//
//   - NodePools do not disrupt nodes unless a test asks for it: nodes are not consolidated and
//     do not expire.
//   - Nodes of Karpenter have a provider ID and the label karpenter.sh/nodepool; the static
//     nodes of package kwok have neither, and Karpenter does not change them.
package karpenter
