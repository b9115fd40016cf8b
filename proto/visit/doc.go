// Package visit is what console and door agree on so that a browser reaches a desktop: the pass, the cookies
// that bind it to one browser, and the page by which that browser introduces itself to a door.
//
//  1. The console's page of a session loads the hello page of the desktop's host in a frame. The door gives the
//     browser a nonce in a cookie, and the page finds out whether the browser returns it.
//  2. The frame sends the hash of the nonce, the challenge, to the console's page, which requests a pass for it.
//  3. The console signs a pass for the session, the user and the challenge. Its page hands it to the frame, which
//     sends it to the door (Enter).
//  4. The door verifies the pass and stores it in a second cookie. Each request to the desktop needs both.
//
// Invariants: a pass opens one session under one epoch, and only for the browser with the nonce; neither pass nor nonce
// is ever in a URL; only the console's origin may frame the hello page, and receives what it sends.
package visit
