// Package review answers PlacementReviews: where a session would be placed now, and why.
// Nothing is placed or reserved. The request is the one that the session's controller
// would make: see lifecycle.Preview.
//
// Files: controller.go (the answers), queue.go (the order of the reviews, and how many a
// namespace may have), status.go (which verdicts a status has).
package review
