package recorder_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/vdi-fleet/vdi-fleet/proto/recorder"
)

func TestAFloodOfEventsIsDropped(t *testing.T) {
	const flood = 5000
	fake := events.NewFakeRecorder(flood)
	limited := recorder.Limited(fake)
	for range flood {
		limited.Eventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, "Reason", "Action", "note")
	}
	if n := len(fake.Events); n < 1000 || n > flood/2 {
		t.Errorf("%d of %d are recorded", n, flood)
	}
}
