// Package chart draws lines as SVG: enough for the plots of the placement
// simulator, and no more.
package chart
