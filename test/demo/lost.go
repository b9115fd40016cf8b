package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// lostSessions are the sessions of lost.yaml, by their failover mode.
var lostSessions = map[string]string{
	travels: "Restart", "karl-browser": "Restart", "laura-browser": "Restart",
	"mike-fence": "Fence", "nina-fence": "Fence", "oscar-developer": "Hold",
}

// nowhereElse is a session that only one region can run: there are no GPUs elsewhere.
const nowhereElse = "erin-gpu"

// place is the member and the state of a session.
type place struct{ mode, member, phase, message string }

// places returns the places of all sessions, by name.
func (d *demo) places(ctx context.Context) (map[string]place, error) {
	out, err := d.output(ctx, "hub", "get", "vdisessions", "-n", namespace, "-o",
		`jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.placement.failoverMode}{"\t"}{.status.placement.clusterName}{"\t"}{.status.phase}{"\t"}{.status.message}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	all := map[string]place{}
	for line := range strings.Lines(out) {
		if f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 5); len(f) == 5 {
			all[f[0]] = place{mode: f[1], member: f[2], phase: f[3], message: f[4]}
		}
	}
	return all, nil
}

// host returns the region with the most sessions.
func host(all map[string]place) string {
	count := map[string]int{}
	for _, p := range all {
		count[p.member]++
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return count[a] - count[b] })
}

// fillRegion creates sessions of all modes, most of them in one region, and waits until they run.
func (d *demo) fillRegion(ctx context.Context) error {
	d.announce("Six more sessions in one region: three that restart elsewhere, two that may never run twice, one with a home there")
	if _, err := d.show(ctx, "hub", "apply", "-f", "test/demo/lost.yaml"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(lostSessions)) {
		if err := d.phase(ctx, name, "Running"); err != nil {
			return err
		}
		if err := d.expect(ctx, "vdisession/"+name, ".status.placement.failoverMode", lostSessions[name]); err != nil {
			return err
		}
		if lostSessions[name] != "Fence" {
			continue
		}
		if err := d.expect(ctx, "vdisession/"+name, ".status.placement.guarded", "true"); err != nil {
			return err
		}
	}
	return nil
}

// loseRegion powers off the region with the most sessions, and shows when and where they run
// again.
func (d *demo) loseRegion(ctx context.Context) error {
	before, err := d.places(ctx)
	if err != nil {
		return err
	}
	d.lost = host(before)
	d.announce("The region with the most sessions is lost: every process of %s at once. By policy, x %s:", d.lost, timeFactor)
	fmt.Printf("   Unreachable after %s without a heartbeat; Restart %s later; Fence %s after the last renewal of the lease that was granted; Hold never by itself\n",
		scaled(40*time.Second), scaled(60*time.Second), scaled(300*time.Second))
	if err := d.fleet(ctx, "power-off", d.lost); err != nil {
		return err
	}
	died := time.Now()
	again, err := d.awaitElsewhere(ctx, before, died)
	if err != nil {
		return err
	}
	now, err := d.places(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "   SESSION\tMODE\tWAS IN\tIS IN\tRUNNING AGAIN AFTER\tOR WHY NOT")
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if was := before[name]; was.member == d.lost {
			after, why := "-", now[name].message
			if took, moved := again[name]; moved {
				after, why = fmt.Sprintf("%.1fs", took.Seconds()), ""
			}
			_, _ = fmt.Fprintf(table, "   %s\t%s\t%s\t%s\t%s\t%s\n", name, was.mode, was.member, now[name].member, after, why)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return d.hold(ctx, before)
}

// awaitElsewhere waits until each session of the lost region that may run elsewhere
// does, and prints after how long each did.
func (d *demo) awaitElsewhere(ctx context.Context, before map[string]place, died time.Time) (map[string]time.Duration, error) {
	again := map[string]time.Duration{}
	claim := fmt.Sprintf("every Restart and Fence session of %s runs elsewhere", d.lost)
	err := d.until(ctx, claim, func() (bool, string) {
		now, err := d.places(ctx)
		if err != nil {
			return false, err.Error()
		}
		missing := ""
		for name, was := range before {
			if was.member != d.lost || was.mode == "Hold" || was.phase != "Running" || name == nowhereElse {
				continue
			}
			_, seen := again[name]
			switch is := now[name]; {
			case seen:
			case is.member != d.lost && is.phase == "Running":
				again[name] = time.Since(died)
			default:
				missing = fmt.Sprintf("%s is in %q, %s: %s", name, is.member, is.phase, is.message)
			}
		}
		return missing == "", missing
	})
	return again, err
}

// hold checks that Hold sessions did not move, and show that their failover is pending.
func (d *demo) hold(ctx context.Context, before map[string]place) error {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if was := before[name]; was.member != d.lost || was.mode != "Hold" || was.phase != "Running" {
			continue
		}
		if err := d.expect(ctx, "vdisession/"+name, ".status.placement.clusterName", d.lost); err != nil {
			return err
		}
		if err := d.expect(ctx, "vdisession/"+name, `.status.conditions[?(@.type=="Ready")].reason`, "FailoverPending"); err != nil {
			return err
		}
	}
	return nil
}

// regionBack restores the region's power: rescheduled sessions no longer run there, and those that
// could not move run again.
func (d *demo) regionBack(ctx context.Context) error {
	d.announce("%s is back: nothing runs there of what was rescheduled, and what had to stay runs again", d.lost)
	if err := d.fleet(ctx, "power-on", d.lost); err != nil {
		return err
	}
	if err := d.expect(ctx, "membercluster/"+d.lost, `.status.conditions[?(@.type=="Ready")].status`, "True"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(lostSessions)) {
		if err := d.phase(ctx, name, "Running"); err != nil {
			return err
		}
	}
	err := d.until(ctx, "each session has one Pod, and only where it is placed", func() (bool, string) {
		why, err := d.strays(ctx)
		if err != nil {
			return false, err.Error()
		}
		return why == "", why
	})
	if err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "events", "-n", namespace, "--field-selector", "reason=FailedOver", "-o",
		`custom-columns=SESSION:.involvedObject.name,WHAT:.message`); err != nil {
		return err
	}
	return d.overlaps(ctx)
}

// strays describes a Pod that is not where its session is placed, or a running session without
// exactly one Pod. It returns "" if there is neither.
func (d *demo) strays(ctx context.Context) (string, error) {
	all, err := d.places(ctx)
	if err != nil {
		return "", err
	}
	pods := map[string]int{}
	for _, member := range regions {
		out, err := d.output(ctx, member, "get", "pods", "-n", namespace, "-o", `jsonpath={range .items[*]}{.metadata.annotations.vdi\.kasm\.io/session}{"\n"}{end}`)
		if err != nil {
			return "", err
		}
		for session := range strings.FieldsSeq(out) {
			name := strings.TrimPrefix(session, namespace+"/")
			if pods[name]++; all[name].member != member {
				return fmt.Sprintf("%s has a Pod of %s, which is in %s", member, name, all[name].member), nil
			}
		}
	}
	for name, p := range all {
		if p.phase == "Running" && pods[name] != 1 {
			return fmt.Sprintf("%s has %d Pods", name, pods[name]), nil
		}
	}
	return "", nil
}
