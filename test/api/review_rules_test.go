package api

import (
	"slices"
	"strings"
)

// reviewCases returns the cases of reviews: those of a session's spec, applied to the one in
// a review, and those of the review itself.
func reviewCases() []ruleCase {
	var cases []ruleCase
	for _, c := range slices.Concat(sharedCases(), desktopCases(), sessionCases()) {
		if c.plural != "vdisessions" || !strings.HasPrefix(c.path, "spec") || c.schema {
			continue
		}
		c.plural, c.path = "placementreviews", strings.Replace(c.path, "spec", "spec.session", 1)
		c.bad, c.stored = inReview(c.bad), inReview(c.stored)
		c.good = inReview(c.good)
		if c.stored != "" {
			c.good = c.stored // an update that changes nothing
		}
		cases = append(cases, c)
	}
	return append(cases,
		ruleCase{plural: "accesstickets", path: "spec", name: "another user", stored: `{}`,
			good: `metadata: {labels: {a: b}}`, bad: `spec: {user: bob@example.com}`},
		ruleCase{plural: "accesstickets", path: "spec.challenge", name: "the secret itself",
			good: `spec: {challenge: "` + strings.Repeat("A", 43) + `"}`, bad: `spec: {challenge: secret}`},
		ruleCase{plural: "placementreviews", path: "spec", name: "of a session that there is and of another",
			good: `spec: {sessionName: alice, session: null}`, bad: `spec: {sessionName: alice}`},
		ruleCase{plural: "placementreviews", path: "spec", name: "of nothing",
			good: `spec: {count: 100}`, bad: `spec: {session: null}`},
		ruleCase{plural: "placementreviews", path: "(root)", name: "another question", stored: `{}`,
			good: `metadata: {labels: {a: b}}`, bad: `spec: {count: 2}`},
		ruleCase{plural: "placementreviews", path: "status.clusters[].capacityAge", name: "days", ofStatus: true, stored: `{}`,
			good: `status: {clusters: [{clusterName: a, clusterUID: b, fits: true, capacityAge: 1.5s}]}`,
			bad:  `status: {clusters: [{clusterName: a, clusterUID: b, fits: true, capacityAge: 2d}]}`},
	)
}

// inReview returns a patch of a session's spec as a patch of the session in a review.
func inReview(patch string) string {
	fields, found := strings.CutPrefix(patch, "spec: ")
	if !found {
		return patch
	}
	return "spec: {session: " + fields + "}"
}
