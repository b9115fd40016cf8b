// Command vdi-desktop is the entry point of the desktop image: it runs an X server
// that speaks VNC, a window manager and a terminal, and serves them to a browser.
//
// # What it serves
//
// One port has all that a template names: noVNC's page, the websocket behind it,
// and the activity contract at /.well-known/vdi/activity. Whoever opens the page
// is asked for the session's password, which the agent mounts as a file. The file
// is read at each login: a password that changes is honoured at once, and shuts
// out who came with the one before. The browser keeps a login for this
// host alone and only by HTTPS or at localhost, and shows the desktop in no page of
// another origin. VNC has a password of its own, of which only
// eight characters count; it is not used. The X server listens on a socket of the
// container's alone, and on no port.
//
// # When it is used
//
// The X server itself knows when a key was pressed or the pointer moved last. A
// page that is open and shows news is no activity. This is told to who asks at the
// Pod's own address, as the agent does; through a gateway it is not there.
//
// # How it ends
//
// Told to stop, it tells the programs on the desktop first (SIGHUP and SIGTERM),
// so that they can save what they have, and the X server once they are gone, or
// when their grace is over. It needs an init that reaps (tini, in the image), no
// privileges and no capabilities. It writes to /tmp and to the home alone.
package main
