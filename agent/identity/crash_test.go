package identity

import (
	"errors"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// life is an agent that joins, and rotates twice. It ends at the first error.
func life(t *testing.T, m *member, k *Keeper) error {
	if err := connect(k); err != nil {
		return err
	}
	k.step(t.Context())
	for range 2 {
		m.pass(lifetime * 8 / 10)
		k.step(t.Context())
		drop(k)
		if err := connect(k); err != nil {
			return err
		}
		k.step(t.Context())
	}
	return nil
}

// dyingAt is a process that dies at its nth step: a write to its API server, or a call of the
// hub, before or after its effect.
func dyingAt(m *member, n int) (died func() bool) {
	steps, errDead := 0, errors.New("the process is dead")
	step := func() error {
		if steps++; steps >= n {
			return errDead
		}
		return nil
	}
	m.write = step
	m.hub.set(func() {
		m.hub.fault = func(string, bool) error {
			if step() != nil {
				return status.Error(codes.Unavailable, "the hub is away")
			}
			return nil
		}
	})
	return func() bool { return steps >= n }
}

func alive(m *member) {
	m.write = func() error { return nil }
	m.hub.set(func() { m.hub.fault = func(string, bool) error { return nil } })
}

func TestAProcessMayCrashAtEachStep(t *testing.T) {
	n := 1
	for ; ; n++ {
		g := NewWithT(t)
		m := newMember(t, startHub(t))
		died := dyingAt(m, n)
		_ = life(t, m, m.start())
		if !died() {
			break
		}
		alive(m)
		k := m.start()
		// One refusal is allowed: of a new certificate that is not valid yet, or of an old
		// one.
		err := connect(k)
		if err != nil {
			err = connect(k)
		}
		g.Expect(err).NotTo(HaveOccurred(), "died at step %d", n)
		k.step(t.Context())
		g.Expect(life(t, m, k)).To(Succeed(), "died at step %d", n)
		g.Expect(m.secret(SecretName)).NotTo(HaveKey("pending.key"), "died at step %d", n)
	}
	if n < 20 {
		t.Errorf("only %d steps were checked", n)
	}
}
