// Package denied recognizes requests that an API server denies, and explains them: cause
// first, then remedy.
package denied
