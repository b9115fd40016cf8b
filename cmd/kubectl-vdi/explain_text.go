package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// reviewText returns a review's result as text: a summary, and a row for every member.
func reviewText(review *v1alpha1.PlacementReview) string {
	var b strings.Builder
	status := &review.Status
	fmt.Fprintln(&b, headline(review))
	fmt.Fprintf(&b, "%s: %s\n", status.Reason, cell(status.Message))
	if status.Policy != "" {
		fmt.Fprintf(&b, "Policy: %s\n", cell(status.Policy))
	}
	if len(status.Clusters) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	b.WriteString("\n")
	many := review.Spec.Count > 1
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	columns := []string{"RANK", "CLUSTER", "REGION", "VERDICT", "SLOTS", "CAPACITY AGE", "WHY"}
	if many {
		columns = append([]string{"SESSIONS"}, columns...)
	}
	fmt.Fprintln(table, strings.Join(columns, "\t"))
	for i := range status.Clusters {
		fmt.Fprintln(table, strings.Join(row(&status.Clusters[i], many), "\t"))
	}
	table.Flush() //nolint:errcheck // a strings.Builder never fails
	if status.OmittedClusters > 0 {
		fmt.Fprintf(&b, "and %d more clusters\n", status.OmittedClusters)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// headline returns the placement of the sessions in one line.
func headline(review *v1alpha1.PlacementReview) string {
	what := "A session like this"
	if review.Spec.SessionName != "" {
		what = "Session " + review.Namespace + "/" + review.Spec.SessionName
	}
	s := &review.Status
	if review.Spec.Count <= 1 {
		if s.Placed == 0 {
			return what + " would be placed nowhere now."
		}
		for _, c := range s.Clusters {
			if c.Sessions > 0 {
				return what + " would be placed in " + c.ClusterName + " now."
			}
		}
		return what + " would be placed now."
	}
	out := fmt.Sprintf("Of %d sessions like this, %d would be placed now%s and %d would wait", review.Spec.Count, s.Placed, byKind(s), s.Waiting)
	if s.NotTried > 0 {
		out += fmt.Sprintf("; %d were not tried", s.NotTried)
	}
	return out + "."
}

// byKind returns how many of the placed sessions wait for a node; empty if none does.
func byKind(s *v1alpha1.PlacementReviewStatus) string {
	if s.PlacedProvisioning+s.PlacedGrowable == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d in free slots, %d on nodes that are being added, %d on nodes that must be added first)",
		s.Placed-s.PlacedProvisioning-s.PlacedGrowable, s.PlacedProvisioning, s.PlacedGrowable)
}

// row returns the row of a member.
func row(c *v1alpha1.ClusterVerdict, many bool) []string {
	rank, verdict, slots, why := "-", c.Filter, "-", c.Message
	if c.Fits {
		rank, verdict = strconv.Itoa(int(c.Rank)), "fits"
		slots, why = slotsOf(c), scoresOf(c)
	}
	out := []string{rank, c.ClusterName, dash(c.Region), verdict, slots, ageOf(c.CapacityAge), why}
	if many {
		out = append([]string{strconv.Itoa(int(c.Sessions))}, out...)
	}
	for i := range out {
		out[i] = cell(out[i])
	}
	return out
}

// slotsOf returns the slots of a member, and how many of them are on nodes that do not exist yet.
func slotsOf(c *v1alpha1.ClusterVerdict) string {
	slots := strconv.FormatInt(c.Slots, 10)
	if c.Provisioning > 0 || c.Growable > 0 {
		slots += fmt.Sprintf(" (%d free, %d provisioning, %d growable)", c.Slots-c.Provisioning-c.Growable, c.Provisioning, c.Growable)
	}
	return slots
}

// scoresOf returns the scores without the last, which is a hash.
func scoresOf(c *v1alpha1.ClusterVerdict) string {
	var out []string
	for i, s := range c.Scores {
		if i < len(c.Scores)-1 {
			out = append(out, s.Name+" "+s.Value)
		}
	}
	return strings.Join(out, ", ")
}

// ageOf returns the age of a report, to the tenth of a second.
func ageOf(d v1alpha1.Duration) string {
	age, reported := d.Value()
	if !reported {
		return "never"
	}
	if age < 10*time.Second {
		return age.Round(100 * time.Millisecond).String()
	}
	return age.Round(time.Second).String()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
