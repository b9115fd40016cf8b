package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
)

// doors returns the scenarios in which a desktop is open behind a door.
func doors() []runner.Scenario {
	all := []runner.Scenario{
		{Name: "door-killed", Short: true, Do: doorKilled},
		{Name: "door-hub-away", Do: doorWithoutHub},
		{Name: "door-member-api-down", Do: doorWithoutAPI},
		{Name: "door-region-lost", Do: doorRegionLost},
		{Name: "door-session-recreated", Do: doorSessionRecreated},
		{Name: "door-keys-deleted", Do: doorKeysDeleted},
	}
	for i := range all {
		all[i].Kind = stage.Kind{Consoles: true, Doors: true, Kubelets: true}
		all[i].Size = 6
		all[i].Slack = stage.WatchBackoff
	}
	return all
}

// guest is a visitor whose desktop is open.
type guest struct {
	*visitor
	name    string
	desktop *pages.Desktop
}

// enter logs two users in who start and open desktops, and returns the first, once neither gets into the other's.
func enter(ctx context.Context, r *runner.Run) (*guest, error) {
	var guests []*guest
	for _, user := range []string{"alice", "bob"} {
		v, err := visit(ctx, r, user)
		if err != nil {
			return nil, err
		}
		g := &guest{visitor: v, name: v.path[strings.LastIndex(v.path, "/")+1:]}
		if err := g.open(ctx, r); err != nil {
			return nil, err
		}
		guests = append(guests, g)
	}
	alice, bob := guests[0], guests[1]
	_, err := bob.Open(ctx, alice.path)
	if !errors.Is(err, pages.ErrNoDesktop) {
		return nil, fmt.Errorf("bob opens the desktop of alice: %w", err)
	}
	return alice, bob.refusedAt(ctx, alice.desktop)
}

// refusedAt returns an error if the browser gets a byte of another's desktop.
func (g *guest) refusedAt(ctx context.Context, other *pages.Desktop) error {
	page, err := g.Browser.Visit(ctx, other.Origin+other.Path)
	if err == nil && page.Status < http.StatusBadRequest && page.Status != http.StatusSeeOther {
		err = fmt.Errorf("%s gets %d %s at %s", g.name, page.Status, page.Body, other.Origin)
	}
	return err
}

// open opens the desktop by the session's page.
func (g *guest) open(ctx context.Context, r *runner.Run) error {
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) (err error) {
		if g.desktop, err = g.Open(ctx, g.path); err != nil {
			return err
		}
		return g.works(ctx)
	})
}

// works returns an error unless the desktop that was opened answers, as that of this session.
func (g *guest) works(ctx context.Context) error {
	page, err := g.desktop.Get(ctx, g.desktop.Path)
	if err == nil && (page.Status != http.StatusOK || !strings.Contains(page.Body, g.name)) {
		err = fmt.Errorf("the desktop of %s is %d %s", g.name, page.Status, page.Body)
	}
	return err
}

// member returns the member that a desktop is in, by its address.
func (g *guest) member(r *runner.Run) *harness.Member {
	for _, m := range r.Fleet.Members {
		if strings.Contains(g.desktop.Origin, "."+m.Spec.IngressDomain+":") {
			return m
		}
	}
	return nil
}

// shut waits until what was opened does not open anything any more.
func (g *guest) shut(ctx context.Context, r *runner.Run) error {
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		page, err := g.desktop.Get(ctx, g.desktop.Path)
		if err == nil && page.Status == http.StatusOK {
			err = fmt.Errorf("%s is still open", g.desktop.Origin)
		} else {
			err = nil
		}
		return err
	})
}

// doorKilled kills the door again and again. What is open is open again once it is back, without a login.
func doorKilled(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	door := alice.member(r).Door
	for range runner.Rounds {
		if err := r.PauseRandomly(ctx, 5*time.Second); err != nil {
			return err
		}
		r.Record("kill -9 %s", door.Spec.Name)
		began := time.Now()
		if err := door.Kill(); err != nil {
			return err
		}
		if err := stage.Poll(ctx, stage.Allowance, alice.works); err != nil {
			return err
		}
		r.Record("the desktop answers again %s later", time.Since(began).Round(10*time.Millisecond))
	}
	return nil
}

// doorWithoutHub stops hub and console for a while. What is open stays open.
func doorWithoutHub(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	var processes []*harness.Process
	for _, replica := range r.Fleet.Hub.Replicas {
		processes = append(processes, replica.Process)
	}
	for _, replica := range r.Fleet.Console.Replicas {
		processes = append(processes, replica.Process)
	}
	r.Record("hub and console are paused")
	for _, p := range processes {
		if err := p.Pause(); err != nil {
			return err
		}
	}
	var errs []error
	for range 5 {
		errs = append(errs, alice.works(ctx), r.Pause(ctx, 2*time.Second))
	}
	for _, p := range processes {
		errs = append(errs, p.Resume())
	}
	r.Record("hub and console go on")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return alice.open(ctx, r)
}

// doorWithoutAPI kills the API server of the member. What is open stays open, and so it is once the API server is back.
func doorWithoutAPI(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	plane := alice.member(r).ControlPlane
	r.RecordOutage(alice.member(r).Name)
	r.Record("kill -9 %s", plane.APIServer.Spec.Name)
	if err := plane.APIServer.Kill(); err != nil {
		return err
	}
	var errs []error
	for range 5 {
		errs = append(errs, alice.works(ctx), r.Pause(ctx, 2*time.Second))
	}
	r.Record("%s starts again", plane.APIServer.Spec.Name)
	if err := errors.Join(append(errs, stage.RestartAfterOutage(ctx, plane))...); err != nil {
		return err
	}
	return alice.open(ctx, r)
}

// doorRegionLost powers off the region of a desktop that is open. The same address shows it in another region, and the
// pass of the first opens nothing there any more once the region is back.
func doorRegionLost(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	was, before := alice.member(r), *alice
	if err := runner.PowerOff(r, was); err != nil {
		return err
	}
	if err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+2*stage.Allowance, func(ctx context.Context) error {
		if err := alice.open(ctx, r); err != nil {
			return err
		}
		if alice.member(r) == was {
			return fmt.Errorf("%s is still in %s", alice.path, was.Name)
		}
		return nil
	}); err != nil {
		return err
	}
	r.Record("%s shows the desktop in %s", alice.path, alice.member(r).Name)
	if err := runner.PowerOn(ctx, r, was); err != nil {
		return err
	}
	return errors.Join(before.shut(ctx, r), alice.works(ctx))
}

// doorSessionRecreated deletes a session and creates another of its name. What was open is shut, and the same address
// shows the new desktop.
func doorSessionRecreated(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	before := *alice
	if err := alice.act(ctx, "end"); err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(strings.TrimPrefix(alice.path, "/s/"), "/")
	if err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		s := &v1alpha1.VDISession{}
		if err := r.Watch.Hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(errors.New("the session is not gone yet"), err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := before.shut(ctx, r); err != nil {
		return err
	}
	if alice.visitor, err = visit(ctx, r, "alice"); err != nil {
		return err
	}
	if err := alice.open(ctx, r); err != nil {
		return err
	}
	return before.shut(ctx, r)
}

// doorKeysDeleted deletes the console's keys. What was open is shut, and opened again after the next login.
func doorKeysDeleted(ctx context.Context, r *runner.Run) error {
	alice, err := enter(ctx, r)
	if err != nil {
		return err
	}
	r.Record("the Secret of the keys is deleted")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: "vdi-console-keys"}}
	if err := r.Watch.Hub.Delete(ctx, secret); err != nil {
		return err
	}
	if err := alice.shut(ctx, r); err != nil {
		return err
	}
	if err := alice.Login(ctx, "alice"); err != nil {
		return err
	}
	return alice.open(ctx, r)
}
