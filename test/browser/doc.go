// Package browser opens desktops as their users do: in a real browser, headless Chromium, through
// the page that the desktop serves. It reads what a desktop shows from the painted pixels, not
// from the page's elements.
//
// It is a module of its own, so that its dependencies stay out of the product's.
package browser
