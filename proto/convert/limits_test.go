package convert

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func smallReport() *fleetv1.AssignmentReport {
	return &fleetv1.AssignmentReport{SessionUid: "u", Namespace: "desktops", Name: "s", Epoch: 1, SpecHash: "h"}
}

func TestAReportBeyondALimitIsRefused(t *testing.T) {
	for name, change := range map[string]func(*fleetv1.AssignmentReport){
		"a long UID":            func(w *fleetv1.AssignmentReport) { w.SessionUid = strings.Repeat("u", MaxToken+1) },
		"a UID with a newline":  func(w *fleetv1.AssignmentReport) { w.SessionUid = "u\n" },
		"a long name":           func(w *fleetv1.AssignmentReport) { w.Name = strings.Repeat("n", MaxName+1) },
		"a name of a path":      func(w *fleetv1.AssignmentReport) { w.Name = "../n" },
		"a namespace with case": func(w *fleetv1.AssignmentReport) { w.Namespace = "N" },
		"a session's long name": func(w *fleetv1.AssignmentReport) { w.SessionName = strings.Repeat("n", MaxName+1) },
		"a long hash":           func(w *fleetv1.AssignmentReport) { w.SpecHash = strings.Repeat("0", MaxToken+1) },
		"a long reason": func(w *fleetv1.AssignmentReport) {
			w.Status = &fleetv1.AssignmentStatus{Reason: strings.Repeat("R", MaxToken+1)}
		},
		"many conditions": func(w *fleetv1.AssignmentReport) {
			w.Status = &fleetv1.AssignmentStatus{}
			for range MaxConditions + 1 {
				w.Status.Conditions = append(w.Status.Conditions, &fleetv1.Condition{Type: "T", Status: "True"})
			}
		},
		"many secrets": func(w *fleetv1.AssignmentReport) {
			w.Status = &fleetv1.AssignmentStatus{MissingSecrets: make([]string, MaxList+1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := smallReport()
			if _, err := ReportFromWire(w); err != nil {
				t.Fatalf("before: %v", err)
			}
			change(w)
			if _, err := ReportFromWire(w); err == nil {
				t.Error("it was read")
			}
		})
	}
}

func TestASentenceIsCutAtAWholeCharacter(t *testing.T) {
	w := smallReport()
	w.Status = &fleetv1.AssignmentStatus{Message: "x" + strings.Repeat("é", MaxMessage)}
	a, err := ReportFromWire(w)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.Status.Message, "x"+strings.Repeat("é", (MaxMessage-1)/2); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if _, err := proto.Marshal(ReportToWire(a)); err != nil {
		t.Error(err)
	}
}

func TestAnAssignmentBeyondALimitIsRefused(t *testing.T) {
	for name, change := range map[string]func(*fleetv1.Assignment){
		"a long image":   func(w *fleetv1.Assignment) { w.Desktop.Image = strings.Repeat("i", maxText+1) },
		"many arguments": func(w *fleetv1.Assignment) { w.Desktop.Args = make([]string, maxArguments+1) },
		"a huge file": func(w *fleetv1.Assignment) {
			w.Desktop.Files = []*fleetv1.ConfigFile{{Content: strings.Repeat("c", maxArgument+1)}}
		},
		"many secrets":     func(w *fleetv1.Assignment) { w.Secrets = make([]*fleetv1.Secret, MaxList+1) },
		"a long user":      func(w *fleetv1.Assignment) { w.User = strings.Repeat("u", MaxName+1) },
		"many tolerations": func(w *fleetv1.Assignment) { w.Desktop.Tolerations = make([]*fleetv1.Toleration, MaxList+1) },
		"a long selector": func(w *fleetv1.Assignment) {
			w.Desktop.NodeSelector = map[string]string{"k": strings.Repeat("v", maxText+1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &fleetv1.Assignment{SessionUid: "u", Namespace: "n", Name: "n", Epoch: 1, Desktop: &fleetv1.Desktop{Image: "i"}}
			if _, err := AssignmentFromWire(w); err != nil {
				t.Fatalf("before: %v", err)
			}
			change(w)
			if _, err := AssignmentFromWire(w); err == nil {
				t.Error("it was read")
			}
		})
	}
}
