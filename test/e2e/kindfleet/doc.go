// Package kindfleet runs a fleet in kind clusters, where test/harness has simulated
// nodes: a hub and its members, each a cluster of containers with real kubelets,
// with hub and agents installed as a user does it: by the charts, from images, and
// joined by tokens of `kubectl vdi join`.
//
//	fleet, err := kindfleet.Up(ctx, options)   // what is there already is kept
//	fleet.Member("eu-west").Client             // its API server
//	fleet.Member("eu-west").Node(ctx, name)    // its containers, beside any API server
//	fleet.Down(ctx)
//
// # Invariants
//
//   - Up may be called again: clusters that are there are kept, and charts upgraded.
//   - The fleet's containers, images in nodes, network and kubeconfig are named for
//     it; Down leaves none of them, whatever state it finds.
//   - Hub and agents are used only through their charts and the API.
package kindfleet
