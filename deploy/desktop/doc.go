// Command vdi-desktop is the entry point of the desktop image: it runs an X server
// that speaks VNC, a window manager and a terminal, and serves them to a browser.
//
// # Endpoints
//
// A single port serves noVNC's page, its websocket, and the activity endpoint at
// /.well-known/vdi/activity. The page requires the session's password, which the agent
// mounts as a file. The file is read at each login: a changed password takes effect at
// once, and invalidates earlier logins. Browsers keep a login for this host only, with
// HTTPS or at localhost only, and do not show the desktop in pages of other origins. Basic
// authentication with the password, which the door of a member supplies, needs no login. The
// password of VNC, of which only eight characters count, is not used. The X server listens
// on a socket in the container, and on no port.
//
// # Activity
//
// The X server records when a key was last pressed or the pointer last moved. An open page
// is no activity. The endpoint answers requests to the Pod's own address, as the agent's
// are; through a gateway it answers 404.
//
// # Termination
//
// On SIGTERM it sends SIGHUP and SIGTERM to the programs on the desktop first, so that they
// can save their data, and stops the X server once they have ended or their grace period is
// over. It needs an init that reaps (tini, in the image), no privileges and no capabilities.
// It writes only to /tmp and to the home.
package main
