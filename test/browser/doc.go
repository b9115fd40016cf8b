// Package browser opens desktops as their users do: in a real browser, headless
// Chromium, through the page that the desktop serves. What it shows of a desktop is
// read from the pixels that were painted, not from the page's elements.
//
// It is a module of its own, so that nothing of it is the product's.
package browser
