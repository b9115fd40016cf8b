// Package app is what the sample desktop serves: see package main above it for the activity contract. Simulated
// kubelets serve it at the addresses of Pods.
package app
