package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

type auditFlags struct {
	sessions int
	users    []string
	all      bool
	leases   bool
	events   bool
	since    string
	mark     bool
}

func auditCommand(dir *string) *cobra.Command {
	var flags auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Count the writes to each API server by user, from its audit log",
		Long: `Count the writes to each API server by user, from its audit log.

  fleet audit --mark > before       remember where the logs end now
  fleet audit --since @before       count what came after
  fleet audit --since 5m            count the last five minutes
  fleet audit --sessions 300        show writes per session too

Leases, events and reviews are omitted unless requested. Failed writes count.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fleet, err := harness.Attach(*dir)
			if err != nil {
				return err
			}
			return audit(os.Stdout, fleet, flags)
		},
	}
	cmd.Flags().IntVar(&flags.sessions, "sessions", 0, "number of sessions to divide by")
	cmd.Flags().StringSliceVar(&flags.users, "users", []string{harness.HubUser, harness.ConsoleUser, harness.AgentUser, harness.DoorUser}, "users to show")
	cmd.Flags().BoolVar(&flags.all, "all-users", false, "show every user")
	cmd.Flags().BoolVar(&flags.leases, "leases", false, "count leases too")
	cmd.Flags().BoolVar(&flags.events, "events", false, "count events too")
	cmd.Flags().StringVar(&flags.since, "since", "", "@FILE of --mark, a duration, or an RFC 3339 time")
	cmd.Flags().BoolVar(&flags.mark, "mark", false, "print where the logs end, for --since @FILE")
	return cmd
}

func audit(out io.Writer, fleet *harness.Detached, flags auditFlags) error {
	marks, since, err := readSince(flags.since)
	if err != nil {
		return err
	}
	if flags.mark {
		return printMarks(out, fleet)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := "CLUSTER\tUSER\tVERB\tRESOURCE\tWRITES\tFAILED"
	if flags.sessions > 0 {
		header += "\tPER SESSION"
	}
	fmt.Fprintln(table, header)
	for _, cluster := range append([]string{"hub"}, fleet.Members...) {
		options := harness.CountOptions{
			Offset: marks[cluster], Since: since, Users: flags.users, Leases: flags.leases, Events: flags.events,
		}
		if flags.all {
			options.Users = nil
		}
		counts, err := harness.CountWrites(auditLog(fleet, cluster), options)
		if err != nil {
			return err
		}
		printCounts(table, cluster, counts, flags.sessions)
	}
	return table.Flush()
}

func printCounts(table io.Writer, cluster string, counts []harness.WriteCount, sessions int) {
	row := func(user, verb, resource string, count, failed int) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d", cluster, user, verb, resource, count, failed)
		if sessions > 0 {
			fmt.Fprintf(table, "\t%.2f", float64(count)/float64(sessions))
		}
		fmt.Fprintln(table)
	}
	total, failed := 0, 0
	for i, count := range counts {
		row(count.User, count.Verb, count.Resource, count.Count, count.Failed)
		total, failed = total+count.Count, failed+count.Failed
		if i == len(counts)-1 || counts[i+1].User != count.User {
			row(count.User, "all", "", total, failed)
			total, failed = 0, 0
		}
	}
}

func printMarks(out io.Writer, fleet *harness.Detached) error {
	marks := map[string]int64{}
	for _, cluster := range append([]string{"hub"}, fleet.Members...) {
		mark, err := harness.AuditMark(auditLog(fleet, cluster))
		if err != nil {
			return err
		}
		marks[cluster] = mark
	}
	return json.NewEncoder(out).Encode(marks)
}

func readSince(since string) (marks map[string]int64, from time.Time, err error) {
	if since == "" {
		return nil, time.Time{}, nil
	}
	if file, ok := strings.CutPrefix(since, "@"); ok {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, time.Time{}, err
		}
		err = json.Unmarshal(raw, &marks)
		return marks, time.Time{}, err
	}
	if age, err := time.ParseDuration(since); err == nil {
		return nil, time.Now().Add(-age), nil
	}
	if from, err = time.Parse(time.RFC3339, since); err != nil {
		return nil, from, errors.New("--since is neither @FILE, nor a duration, nor an RFC 3339 time: " + since)
	}
	return nil, from, nil
}

func auditLog(fleet *harness.Detached, cluster string) string {
	return filepath.Join(fleet.Dir, "clusters", cluster, "audit.log")
}
