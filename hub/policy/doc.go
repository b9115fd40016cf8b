// Package policy determines which PlacementPolicy governs a session, and shows in each
// policy's status how many sessions it governs and how many of them would be placed
// elsewhere now. It moves nothing.
package policy
