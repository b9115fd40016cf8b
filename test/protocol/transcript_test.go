package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var update = flag.Bool("update", false, "write the transcripts again")

// TestTranscripts plays testdata/*.txt. Lines that begin with "> " are
// commands, with "#" comments; all others are the output of the command.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("the transcript changed (-want +got):\n%s", diff)
			}
		})
	}
}

// play runs the commands of a transcript and returns it with their output.
func play(text string) (string, error) {
	w := newWorld()
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			fmt.Fprintln(&out, line)
			w.trace = nil
			if err := w.command(strings.Fields(command)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			for _, line := range w.trace {
				fmt.Fprintln(&out, strings.TrimRight(line, " "))
			}
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(&out, line)
		}
	}
	return out.String(), nil
}

func (w *world) command(fields []string) error {
	verb, args := strings.Join(fields[:min(2, len(fields))], " "), fields[min(2, len(fields)):]
	simple := map[string]func(){
		"connect":        w.connect,
		"lose stream":    w.drop,
		"exchange":       w.exchange,
		"agent sends":    func() { w.agentSends() },
		"hub receives":   func() { w.hubReceives() },
		"hub sends":      func() { w.hubSends() },
		"agent receives": func() { w.agentReceives() },
		"member works":   w.memberWorks,
		"agent restarts": func() { w.drop(); w.member.restart() },
		"hub resyncs":    func() { w.hub.resync = true },
		"agent renews":   w.renew,
		"late arrives":   func() { w.lateArrives(); w.log("stale=%d", w.hub.stale) },
		"show":           w.show,
	}
	if f := simple[verb]; f != nil {
		f()
		return nil
	}
	return w.commandWith(verb, args)
}

func (w *world) commandWith(verb string, args []string) error {
	need := map[string]int{"hub assigns": 3, "hub withdraws": 2, "hub term": 1, "member status": 2, "member stopped": 1,
		"tick": 0, "agent injects": 1, "many sessions": 1, "hub loses": 1, "hub protocol": 1, "agent protocol": 2,
		"hub requires": 0, "hub supports": 0, "agent supports": 0, "agent requires": 0}
	n, ok := need[verb]
	if strings.HasPrefix(verb, "tick ") {
		d, err := time.ParseDuration(strings.TrimPrefix(verb, "tick "))
		w.tick(d)
		return err
	}
	if !ok || len(args) < n {
		return fmt.Errorf("unknown command, or too few arguments")
	}
	switch verb {
	case "hub assigns":
		w.hub.wanted[args[0]] = item{epoch: number(args[1]), hash: args[2]}
		w.hub.epochs[args[0]] = max(w.hub.epochs[args[0]], number(args[1]))
		w.hub.put(assignment(args[0], number(args[1]), args[2]))
	case "hub withdraws":
		delete(w.hub.wanted, args[0])
		w.hub.releasing[args[0]] = number(args[1])
		w.hub.put(withdrawal(args[0], number(args[1])))
	case "hub term":
		w.drop()
		w.hub.term = number(args[0])
		w.hub.forgetAll()
	case "member status":
		w.member.changes(args[0], args[1])
	case "member stopped":
		w.member.stopped(args[0])
	case "agent injects":
		w.agentInjects(args[0])
	case "hub loses":
		w.hub.loses(args[0])
	case "hub protocol":
		w.hub.protocol = int32(number(args[0]))
	case "hub supports":
		w.hub.tuning.Capabilities = args
	case "agent protocol":
		w.member.tuning.minProtocol, w.member.tuning.maxProtocol = int32(number(args[0])), int32(number(args[1]))
	case "agent supports":
		w.member.tuning.supported = args
	case "hub requires":
		w.hub.tuning.RequiredCapabilities = args
	case "agent requires":
		w.member.tuning.required = args
	case "many sessions":
		for i := range int(number(args[0])) {
			uid := fmt.Sprintf("s%04d", i)
			w.member.held[uid] = &item{epoch: 1, hash: "h", state: "Active"}
		}
	}
	return nil
}

// agentInjects puts a message on the wire that no correct agent sends.
func (w *world) agentInjects(what string) {
	messages := map[string]*fleetv1.ConnectRequest{
		"reports": {Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: 1}}},
		"bad-items": {Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: 1, Items: []*fleetv1.AssignmentReport{
			{SessionUid: "", Namespace: "desks", Name: "anonymous", Epoch: 1},
			{SessionUid: "b", Namespace: "desks", Name: "b", Epoch: 0},
			{SessionUid: "a", Namespace: "desks", Name: "a", Epoch: 1, SpecHash: "h", Status: &fleetv1.AssignmentStatus{State: "Good"}},
		}}}},
	}
	message := messages[what]
	w.log("agent  %s", describeRequest(message))
	w.toHub = append(w.toHub, message)
}

// memberWorks carries out the orders that are pending now.
func (w *world) memberWorks() {
	for range len(w.member.pending) {
		w.member.work()
	}
}

func (w *world) show() {
	w.log("held     %s", describeHeld(w.member.held))
	w.log("cache    %s", describeCache(w.hub.cache))
	outbox := 0
	if w.hub.conn != nil {
		outbox = w.hub.conn.Outbox().Len()
	}
	w.log("outbox=%d dirty=%d results=%d", outbox, w.member.reporter.Len(), w.member.results.Len())
}

func describeHeld(held map[string]*item) string {
	values := map[string]item{}
	for uid, i := range held {
		values[uid] = *i
	}
	return describeCache(values)
}

func describeCache(items map[string]item) string {
	if len(items) == 0 {
		return "nothing"
	}
	if len(items) > 8 {
		return fmt.Sprintf("(%d items)", len(items))
	}
	var out []string
	for _, uid := range sorted(items) {
		out = append(out, fmt.Sprintf("[%s e%d %s %s]", uid, items[uid].epoch, items[uid].hash, items[uid].state))
	}
	return strings.Join(out, " ")
}

func number(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "e"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
