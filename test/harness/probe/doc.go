// Package probe checks from outside whether a process is ready, as a kubelet does.
package probe
