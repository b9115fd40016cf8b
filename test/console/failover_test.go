package console

import (
	"context"
	"fmt"
	"testing"
)

// regions are the members of the fleet, by their regions.
var regions = map[string]string{"eu-west": "us-east", "us-east": "eu-west"}

// T8: a region fails under an open page. The page shows that, and then the desktop in the other region, at the same
// address, without being loaded again and without a click.
func TestRegionFails(t *testing.T) {
	p := open(t).tab().login("alice")
	path := start(p, "browser")
	defer end(p, path)
	p.expect("the desktop runs", `document.querySelector("#session").classList.contains("running")`)
	if _, err := eval[bool](p, `window.notLoadedAgain = true`); err != nil {
		t.Fatal(err)
	}
	region, err := eval[string](p, `document.querySelector("#session .state").nextElementSibling.textContent`)
	if err != nil || regions[region] == "" {
		t.Fatalf("it runs in %q: %v", region, err)
	}
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
	p.expect("the link leads there", fmt.Sprintf(`document.querySelector("#desktop").host.includes(%q)`, regions[region]))
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
