package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
)

// racers is how many browsers redeem one ticket at once.
const racers = 16

var ticketLink = regexp.MustCompile(`http://[^\s#]+(/t/[^\s#]+)#(\S+)`)

// ticketRaced redeems each ticket in many browsers at once, at both replicas: one of them is logged in.
func ticketRaced(ctx context.Context, r *runner.Run) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	for range runner.Rounds {
		out, err := exec.CommandContext(ctx, filepath.Join(root, "bin/kubectl-vdi"), "console", "--no-browser",
			"--kubeconfig="+r.Fleet.Kubeconfig, "--context=alice", "--session-namespace="+workload.Namespace).CombinedOutput()
		if err != nil {
			return fmt.Errorf("kubectl vdi console: %w: %s", err, out)
		}
		link := ticketLink.FindSubmatch(out)
		if link == nil {
			return fmt.Errorf("kubectl vdi console prints no link: %s", out)
		}
		var loggedIn atomic.Int32
		group, racing := errgroup.WithContext(ctx)
		for range racers {
			group.Go(func() error {
				b, err := pages.New(r.Fleet.Console.URL)
				if err != nil {
					return err
				}
				defer b.Close()
				p, err := b.Post(racing, string(link[1])+"/login", url.Values{"secret": {string(link[2])}})
				if p.Status == http.StatusSeeOther {
					loggedIn.Add(1)
				} else if p.Status != http.StatusUnauthorized {
					return fmt.Errorf("a ticket that is raced for: %d %s: %w", p.Status, p.Body, err)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		r.Record("of %d browsers, %d is logged in by one ticket", racers, loggedIn.Load())
		if n := loggedIn.Load(); n != 1 {
			return fmt.Errorf("one ticket logged in %d browsers", n)
		}
	}
	return nil
}
