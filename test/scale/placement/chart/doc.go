// Package chart draws line charts as SVG for the placement simulator.
package chart
