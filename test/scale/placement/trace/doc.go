// Package trace holds workloads of the placement simulator: a fleet, which sessions
// arrive when and for how long, and which nodes and members are lost. A trace is read
// from a CSV file or generated from a seed.
//
// # File
//
// A trace is a CSV file with a header and these columns; a kind leaves columns
// empty that it does not use. Times are seconds from the start, with at most
// three decimals.
//
//	kind       what the row is, see below
//	at         when it happens
//	duration   how long it runs or is lost
//	name       unique within its kind, a node's within its member
//	member     the member that it is in
//	region     a member's, or the one that a session prefers, if any
//	namespace  a session's, on the hub
//	user       a session's
//	weight     a member's, for strategy Weighted
//	cpu        milli-units
//	memory     MiB
//	gpu        devices
//
//	member     name region weight
//	node       name member cpu memory gpu
//	session    name at duration namespace user cpu memory gpu [region]
//	pod        name at duration member cpu memory gpu: another owner's Pod
//	lost       at duration member: the member is cut off
//	nodelost   name at duration member: the node of that name is lost
//
// A node with a GPU is tainted, as is usual: sessions and Pods that request
// none are not scheduled to it.
//
// # What is generated
//
//   - Sessions arrive as a Poisson process whose rate varies over the day as a sine
//     between 25% and 175% of its mean. It is a homogeneous one, thinned (Lewis
//     and Shedler, Simulation of nonhomogeneous Poisson processes by thinning,
//     Naval Research Logistics Quarterly, 1979).
//   - They run for a lognormal time, median 50 minutes, sigma 0.9.
//   - Their users are drawn by Zipf's law, exponent 1.2, from 2,000. Each
//     user has a namespace and a region.
//   - Their sizes are ranks of a truncated geometric distribution with p = 1/2:
//     each size is twice the one before and half as frequent, from 1 CPU to 8, with
//     2 or 4 GiB per CPU at equal chance. One in thirty has 4 CPUs, 16 GiB and a GPU
//     instead.
//   - Other Pods arrive in each member as a Poisson process, request 0.5 to 2 CPUs
//     and 1 to 8 GiB, uniformly, and run for a bounded Pareto time, alpha 1.1, from
//     five minutes to six hours. Harchol-Balter and Downey found that lifetimes are
//     Pareto with alpha near 1 (Exploiting process lifetime distributions for dynamic
//     load balancing, ACM Transactions on Computer Systems, 1997).
//   - Nodes and members fail after a Weibull time of shape 0.7 and are repaired
//     after a lognormal one, as Schroeder and Gibson found (A
//     large-scale study of failures in high-performance computing systems, DSN
//     2006). The scales are the project's own, and harsher, so that a day has failures.
//
// Medians, scales and mixes without a named source are the project's own.
package trace
