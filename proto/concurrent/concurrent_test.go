package concurrent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
)

func TestBeginReturnsTheErrorAndThePanic(t *testing.T) {
	failed := errors.New("failed")
	if err := concurrent.Begin(func() error { return failed })(); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	if err := concurrent.Begin(func() error { return nil })(); err != nil {
		t.Errorf("an error of none: %v", err)
	}
	if err := concurrent.Begin(func() error { panic("bug") })(); err == nil || !strings.Contains(err.Error(), "panic: bug") {
		t.Errorf("the error of a panic is %v", err)
	}
}
