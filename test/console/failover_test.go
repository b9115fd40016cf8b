package console

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// regions are the members of the fleet, by their regions.
var regions = map[string]string{"eu-west": "us-east", "us-east": "eu-west"}

// T8: a region fails under an open page. The page shows that, and then the desktop in the other region, at the same
// address, without being loaded again and without a click.
func TestRegionFails(t *testing.T) {
	p := open(t).tab().login("alice")
	p.refused = true // its desktop is cut off
	path := start(p, "browser")
	defer end(p, path)
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	if _, err := eval[bool](p, `window.notLoadedAgain = true`); err != nil {
		t.Fatal(err)
	}
	region := p.region()
	p.works(region)
	fleetDo(t.Context(), t, "power-off", region)
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		fleetDo(ctx, t, "power-on", region)
		if out, err := kubectl(ctx, "wait", "membercluster", region, "--for=condition=Ready", "--timeout=2m"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	p.expect("the page shows that the region is lost", `document.querySelector("#session").classList.contains("interrupted")`)
	p.shot("interrupted")
	p.expect("the desktop runs in the other region", fmt.Sprintf(
		`document.querySelector("#session").classList.contains("running") && document.querySelector("#session .state").nextElementSibling.textContent === %q`, regions[region]))
	began := time.Now()
	p.expectFrame("the frame shows the desktop there", fmt.Sprintf(`document.querySelector("h1")?.textContent.includes(%q)`, " on node-"+regions[region]))
	t.Logf("the frame shows it %s after the page shows that it runs", time.Since(began).Round(10*time.Millisecond))
	p.works(regions[region])
	p.expect("the page was not loaded again", `window.notLoadedAgain === true`)
	if got := p.path(); got != path {
		t.Errorf("the address is %s, and was %s", got, path)
	}
	p.shot("failed-over")
}

// fleetDo runs a command of bin/fleet on the fleet.
func fleetDo(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	if out, err := command(ctx, "fleet", append([]string{"--dir=" + fleetDir}, args...)...).Output(); err != nil {
		t.Fatalf("fleet %v: %v: %s", args, err, out)
	}
}
