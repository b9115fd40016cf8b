// Package trace is workloads for the placement simulator: the fleet that there
// is, which sessions arrive when and for how long, and what breaks. One is read from a CSV
// file or generated from a seed.
//
// # File
//
// A trace is a CSV file with a header and these columns; a kind leaves those
// empty that it does not use. Times are seconds from the begin, with at most
// three decimals.
//
//	kind       what the row is, see below
//	at         when it happens
//	duration   how long it runs, or is lost
//	name       of it; unique within its kind, a node's within its member
//	member     that it is in
//	region     of a member; that a session would rather be in, empty: any
//	namespace  of a session, on the hub
//	user       of a session
//	weight     of a member, for strategy Weighted
//	cpu        milli-units
//	memory     MiB
//	gpu        devices
//
//	member     name region weight
//	node       name member cpu memory gpu
//	session    name at duration namespace user cpu memory gpu [region]
//	pod        name at duration member cpu memory gpu: a Pod of others
//	lost       at duration member: the member is cut off
//	nodelost   name at duration member: the node of that name is gone
//
// A node with a GPU is tainted, as is the custom: sessions and Pods that request
// none stay off it.
//
// # What is generated
//
//   - Sessions arrive as a Poisson process whose rate swings by the day as a sine
//     between 25% and 175% of its mean. It is thinned out of a steady one (Lewis
//     and Shedler, Simulation of nonhomogeneous Poisson processes by thinning,
//     Naval Research Logistics Quarterly, 1979).
//   - They run for a lognormal time, median 50 minutes, sigma 0.9.
//   - Whose they are is drawn by Zipf's law, exponent 1.2, from 2,000 users. Each
//     user has a namespace and a region.
//   - Their sizes are ranks of a truncated geometric distribution with p = 1/2:
//     each size is twice the one before and half as frequent, from 1 cpu to 8, with
//     2 or 4 GiB a cpu by equal chance. One in thirty has 4 cpu, 16 GiB and a GPU
//     instead.
//   - Other Pods arrive in each member as a Poisson process, request half
//     a cpu to two and 1 to 8 GiB, evenly, and run for a bounded Pareto time,
//     alpha 1.1, from five minutes to six hours. That lifetimes are Pareto with
//     alpha near 1 was found by Harchol-Balter and Downey (Exploiting process
//     lifetime distributions for dynamic load balancing, ACM Transactions on
//     Computer Systems, 1997).
//   - Nodes and members fail after a Weibull time of shape 0.7 and are repaired
//     after a lognormal one, which is what Schroeder and Gibson found (A
//     large-scale study of failures in high-performance computing systems, DSN
//     2006). The scales are the project's own, and harsher, so that a day sees failures.
//
// Of a median, a scale or a mix no source is claimed unless it is named.
package trace
