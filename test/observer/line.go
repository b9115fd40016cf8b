package observer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// line is a record of a log of containers.
type line struct {
	Boottime  int64     `json:"boottime"` // ns
	Wall      time.Time `json:"wall"`
	Member    string    `json:"member"`
	What      string    `json:"what"`
	Node      string    `json:"node"`
	PodUID    string    `json:"podUID"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	Session   string    `json:"session"`
	Epoch     string    `json:"epoch"`
	Restart   int       `json:"restart"`
	ExitCode  int       `json:"exitCode"`
	Reason    string    `json:"reason"`
}

// What a line records.
const (
	boot     = "boot"
	powerOff = "power-off"
	start    = "start"
	stop     = "stop"
	exit     = "exit"
)

// parse parses a line without its newline. torn reports whether it is incomplete.
func parse(raw []byte) (l line, torn bool, err error) {
	if err := json.Unmarshal(raw, &l); err != nil {
		// A record is one object: a part of it does not end with a brace, unless the brace is
		// in a string, and then it is not JSON either.
		if !bytes.HasSuffix(raw, []byte("}")) {
			return line{}, true, nil
		}
		return line{}, false, fmt.Errorf("reading %q: %w", raw, err)
	}
	switch l.What {
	case boot, powerOff:
		if l.Member == "" || l.Boottime == 0 {
			return line{}, false, fmt.Errorf("reading %q: no member or no time", raw)
		}
		return l, false, nil
	case start, stop, exit:
		if l.Member == "" || l.Boottime == 0 || l.PodUID == "" || l.Container == "" {
			return line{}, false, fmt.Errorf("reading %q: no member, time, Pod or container", raw)
		}
		return l, false, nil
	}
	return line{}, false, fmt.Errorf("reading %q: what is %q?", raw, l.What)
}
