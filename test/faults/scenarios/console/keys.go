package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// keysLost breaks the Secret of the console's keys, with which nobody's login ends, and deletes it, with which
// every login does. Then a login at either replica holds at both.
func keysLost(ctx context.Context, r *runner.Run) error {
	alice, err := visit(ctx, r, "alice")
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: "vdi-console-keys"}}
	if err := r.Watch.Hub.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	broken := client.MergeFrom(secret.DeepCopy())
	for entry := range secret.Data {
		secret.Data[entry] = []byte("{")
	}
	r.Record("the Secret of the keys is broken")
	if err := r.Watch.Hub.Patch(ctx, secret, broken); err != nil {
		return err
	}
	if err := stage.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := alice.loggedIn(ctx, true); err != nil {
		return err
	}
	r.Record("the Secret of the keys is deleted")
	if err := r.Watch.Hub.Delete(ctx, secret); err != nil {
		return err
	}
	if err := stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error { return alice.loggedIn(ctx, false) }); err != nil {
		return err
	}
	if err := alice.Login(ctx, "alice"); err != nil {
		return err
	}
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error { return alice.loggedIn(ctx, true) })
}

// loggedIn returns an error unless every replica answers as one that accepts the login, or does not.
func (v *visitor) loggedIn(ctx context.Context, want bool) error {
	for range 6 { // requests go to the replicas in turn
		p, err := v.Get(ctx, v.path)
		if err != nil {
			return err
		}
		if in := p.Status == http.StatusOK; in != want || !in && !strings.HasPrefix(p.Location, loginPath) {
			return fmt.Errorf("logged in: %t, want %t: %d %s", in, want, p.Status, p.Location)
		}
	}
	return nil
}
