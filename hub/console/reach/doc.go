// Package reach finds out why a browser may not reach the door of a desktop: the console tries itself, and a page
// shows what it found. A page can't see why another host does not load.
package reach
