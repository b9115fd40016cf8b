package clusterautoscaler

import (
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

var update = flag.Bool("update", false, "write the golden files again")

// afterScans is the status after two scans: in the second, one group is adding a node and another is in backoff.
func afterScans() *report {
	scan := func(at time.Time, g ...*groupView) *view { return &view{now: at, groups: g} }
	first := reportOf(scan(start, group("asg-1", 10), group("asg-2", 5), group("asg-3", 3)), nil)
	adding, failed, full := group("asg-1", 10), group("asg-2", 5), group("asg-3", 3)
	adding.target, adding.registered, adding.ready = 3, 2, 1
	failed.backoff = &backoff{code: "QUOTA_EXCEEDED", message: "Quota 'CPUS' exceeded"}
	full.target, full.registered, full.ready = 3, 3, 3
	return reportOf(scan(start.Add(10*time.Second), adding, failed, full), first)
}

// The golden file is the status in the format that cluster-autoscaler has written since version 1.30.
func TestStatusIsInTheFormatOfClusterAutoscaler(t *testing.T) {
	c, err := afterScans().configMap()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/status.yaml"
	if *update {
		if err := os.WriteFile(golden, []byte(c.Data["status"]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Data["status"]; got != string(want) {
		t.Errorf("the status is\n%s\nwant\n%s", got, want)
	}
	if c.Namespace != "kube-system" || c.Name != "cluster-autoscaler-status" {
		t.Errorf("the ConfigMap is %s/%s", c.Namespace, c.Name)
	}
}

func TestTheAgentReadsTheStatus(t *testing.T) {
	c, err := afterScans().configMap()
	if err != nil {
		t.Fatal(err)
	}
	got := nodegroup.AutoscalerStatusOf(c)
	want := map[string]nodegroup.AutoscalerGroup{
		"asg-1": {Target: 3, Most: 10}, "asg-2": {Most: 5, BackedOff: true, Message: "Quota 'CPUS' exceeded"}, "asg-3": {Target: 3, Most: 3},
	}
	if got.Problem != "" || !got.Written.Equal(start.Add(10*time.Second)) || !reflect.DeepEqual(got.Groups, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
