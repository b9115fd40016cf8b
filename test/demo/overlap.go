package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// overlaps shows what really ran, from the simulated kubelets' logs alone.
func (d *demo) overlaps(ctx context.Context) error {
	d.announce("What really ran, by the kubelets' own logs, outside of all clusters")
	var logs []string
	for _, member := range regions {
		logs = append(logs, filepath.Join(d.dir, "containers", member+".jsonl"))
	}
	history, err := observer.Read(logs...)
	if err != nil {
		return err
	}
	never := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(lostSessions)) {
		if lostSessions[name] != "Fence" {
			continue
		}
		uid, err := d.field(ctx, "vdisession/"+name, ".metadata.uid")
		if err != nil {
			return err
		}
		never[uid] = true
		for _, run := range history.Of(uid) {
			end := "runs"
			if !run.Open {
				end = "ended at " + run.ToWall.Format(time.TimeOnly)
			}
			fmt.Printf("   %s, epoch %s in %s: started at %s, %s\n", name, run.Epoch, run.Member, run.FromWall.Format(time.TimeOnly), end)
		}
	}
	found := history.Overlaps(func(session string) bool { return !never[session] })
	for _, o := range found {
		fmt.Printf("   %s\n", o)
	}
	if len(found) > 0 {
		return fmt.Errorf("claimed: no Fence session ever ran twice, nor any twice in one member; %d did", len(found))
	}
	fmt.Printf("   checked: %d containers ran, and never two desktops of a Fence session at once\n", len(history.Runs))
	return nil
}
