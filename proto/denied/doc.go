// Package denied recognizes requests that an API server denies, and explains them to
// people: cause first, then remedy.
package denied
