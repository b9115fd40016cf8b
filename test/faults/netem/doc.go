// Package netem emulates a network between two processes: a TCP proxy that delays, paces, loses
// and cuts what it forwards, each direction independently.
package netem
