package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// hubAPIDown kills the hub's API server. The pages are there meanwhile, and say that actions are not done; none
// is done later.
func hubAPIDown(ctx context.Context, r *runner.Run) error {
	alice, err := visit(ctx, r, "alice")
	if err != nil {
		return err
	}
	hub := r.Fleet.Hub.ControlPlane
	r.Record("kill -9 %s", hub.APIServer.Spec.Name)
	if err := hub.APIServer.Kill(); err != nil {
		return err
	}
	if err := errors.Join(alice.staysServed(ctx), alice.staysServed(ctx)); err != nil { // by both replicas
		return err
	}
	// The page says so, to whom it is open too.
	within, cancel := context.WithTimeout(ctx, r.Scaled(time.Minute)+stage.Allowance)
	defer cancel()
	if err := alice.follow(within, "has not answered since"); err != nil {
		return fmt.Errorf("no page shows that the API server is down: %w", err)
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	r.Record("%s starts again", hub.APIServer.Spec.Name)
	if err := stage.RestartAfterOutage(ctx, hub); err != nil {
		return err
	}
	if err := r.Pause(ctx, 30*time.Second); err != nil {
		return err
	}
	if err := alice.isNotSuspended(ctx, r); err != nil {
		return err
	}
	if err := alice.act(ctx, "suspend"); err != nil {
		return err
	}
	return alice.shows(ctx, r, suspended)
}

// staysServed returns an error unless the pages are there without the API server, and an action is refused.
func (v *visitor) staysServed(ctx context.Context) error {
	for _, path := range []string{"/", v.path} {
		page, err := v.Get(ctx, path)
		if err != nil || page.Status != http.StatusOK || !strings.Contains(page.Body, running) {
			return fmt.Errorf("without the API server %s is %d %s: %w", path, page.Status, page.Body, err)
		}
	}
	refused, err := v.Post(ctx, v.path+"/suspend", v.form)
	if err != nil || refused.Status != http.StatusServiceUnavailable || !strings.Contains(refused.Body, "This was not done") {
		return fmt.Errorf("without the API server a session is suspended: %d %s: %w", refused.Status, refused.Body, err)
	}
	return nil
}

// isNotSuspended returns an error if an action that was refused was done later.
func (v *visitor) isNotSuspended(ctx context.Context, r *runner.Run) error {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(v.path, "/s/"), "/")
	s := &v1alpha1.VDISession{}
	err := r.Watch.Hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)
	if err == nil && s.Spec.OperatingMode == v1alpha1.ModeSuspended {
		err = errors.New("an action that was refused was done later")
	}
	return err
}
