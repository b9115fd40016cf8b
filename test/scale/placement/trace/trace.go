package trace

import (
	"errors"
	"fmt"
	"time"
)

// Trace is a fleet and what happens to it.
type Trace struct {
	Members  []Member
	Nodes    []Node
	Sessions []Session
	Pods     []Pod
	Losses   []Loss
}

// Member of the fleet.
type Member struct {
	Name, Region string
	Weight       int32
}

// Node of a member.
type Node struct {
	Name, Member string
	Size
}

// Size is what a node has or a Pod requests.
type Size struct {
	// CPU in milli-units, Memory in MiB, GPU in devices.
	CPU, Memory, GPU int64
}

// Session arrives At and runs for Runs.
type Session struct {
	Name, Namespace, User string
	// Region that it prefers, if any.
	Region   string
	At, Runs time.Duration
	Size
}

// Pod of another owner, of which the hub has no record.
type Pod struct {
	Name, Member string
	At, Runs     time.Duration
	Size
}

// Loss of a node, or of a whole member where Node is empty.
type Loss struct {
	Member, Node string
	At, Lasts    time.Duration
}

// End returns the time of the last arrival or loss in the trace.
func (t *Trace) End() time.Duration {
	var end time.Duration
	for i := range t.Sessions {
		end = max(end, t.Sessions[i].At)
	}
	for i := range t.Pods {
		end = max(end, t.Pods[i].At)
	}
	for _, l := range t.Losses {
		end = max(end, l.At)
	}
	return end
}

// Validate returns all errors of a trace.
func (t *Trace) Validate() error {
	v := validator{names: map[string]bool{}}
	v.claim(len(t.Members) > 0, "there is no member")
	for _, m := range t.Members {
		v.unique("member", m.Name)
		v.claim(m.Weight >= 0, "member %s has a negative weight", m.Name)
	}
	for _, n := range t.Nodes {
		v.within("node", n.Name, n.Member)
		v.unique("node", n.Member+"/"+n.Name)
		v.claim(n.CPU > 0 && n.Memory > 0 && n.GPU >= 0, "node %s/%s has no capacity", n.Member, n.Name)
	}
	for i := range t.Sessions {
		s := &t.Sessions[i]
		v.unique("session", s.Name)
		v.claim(s.Namespace != "" && s.User != "", "session %s has no namespace or no user", s.Name)
		v.requests("session", s.Name, s.Size, s.At, s.Runs)
	}
	for i := range t.Pods {
		p := &t.Pods[i]
		v.within("pod", p.Name, p.Member)
		v.unique("pod", p.Name)
		v.requests("pod", p.Name, p.Size, p.At, p.Runs)
	}
	for _, l := range t.Losses {
		v.within("loss", l.Node, l.Member)
		v.claim(l.Node == "" || v.names["node "+l.Member+"/"+l.Node], "a node %s/%s is lost that does not exist", l.Member, l.Node)
		v.claim(l.At >= 0 && l.Lasts > 0, "a loss in member %s has no duration", l.Member)
	}
	return errors.Join(v.found...)
}

// validator collects the errors of a trace.
type validator struct {
	names map[string]bool
	found []error
}

func (v *validator) claim(holds bool, format string, args ...any) {
	if !holds {
		v.found = append(v.found, fmt.Errorf(format, args...))
	}
}

func (v *validator) unique(kind, name string) {
	v.claim(name != "", "a %s has no name", kind)
	v.claim(!v.names[kind+" "+name], "there are two of %s %s", kind, name)
	v.names[kind+" "+name] = true
}

func (v *validator) within(kind, name, member string) {
	v.claim(v.names["member "+member], "%s %s is in member %q, which does not exist", kind, name, member)
}

func (v *validator) requests(kind, name string, s Size, at, runs time.Duration) {
	v.claim(s.CPU >= 0 && s.Memory >= 0 && s.GPU >= 0, "%s %s requests a negative amount", kind, name)
	v.claim(at >= 0 && runs > 0, "%s %s has no duration, or starts before time 0", kind, name)
}
