package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// WriteCount is the number of writes by a user with one verb to one resource.
type WriteCount struct {
	User     string
	Verb     string // create, update, patch, delete, deletecollection
	Resource string // as "vdisessions" or "vdisessions/status"
	Count    int
	Failed   int // how many of Count were answered with an error
	// Agent is the user agent, if CountOptions.ByAgent.
	Agent string
}

// CountOptions select the writes to count. The zero value counts all from the beginning of
// the log, except leases and events.
type CountOptions struct {
	// Offset in bytes to begin at: a mark that AuditMark returned.
	Offset int64
	// Since omits requests that were received before it.
	Since time.Time
	// Users restricts the count to these users; empty means all.
	Users []string
	// ByAgent counts by user agent too. Agent restricts the count to user agents that contain
	// it; that of a hub replica contains the name of its Pod.
	ByAgent bool
	Agent   string
	// Leases and Events count writes of these, which are omitted by default.
	Leases bool
	Events bool
}

// AuditMark returns the current end of an audit log, for CountOptions.Offset.
func AuditMark(auditLog string) (int64, error) {
	info, err := os.Stat(auditLog)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("marking audit log: %w", err)
	}
	return info.Size(), nil
}

// auditEvent has the fields of an audit.k8s.io/v1 Event that CountWrites reads.
type auditEvent struct {
	Verb                     string    `json:"verb"`
	UserAgent                string    `json:"userAgent"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	User                     struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// CountWrites counts the writes in an API server's audit log, by user, verb and
// resource, sorted. It reads the log as a stream and stops at a last line that is
// not complete yet.
func CountWrites(auditLog string, options CountOptions) ([]WriteCount, error) {
	file, err := os.Open(auditLog)
	if err != nil {
		return nil, fmt.Errorf("counting writes: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(options.Offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("counting writes: %w", err)
	}
	counts := map[WriteCount]*WriteCount{}
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return sorted(counts), nil
		} else if err != nil {
			return nil, fmt.Errorf("counting writes: %w", err)
		}
		var event auditEvent
		if err := DecodeAudit(line, &event); err != nil {
			return nil, fmt.Errorf("counting writes: reading %.100q: %w", line, err)
		}
		if !options.includes(&event) {
			continue
		}
		key := WriteCount{User: event.User.Username, Verb: event.Verb, Resource: event.resource()}
		if options.ByAgent {
			key.Agent = event.UserAgent
		}
		if counts[key] == nil {
			count := key
			counts[key] = &count
		}
		counts[key].Count++
		if event.ResponseStatus.Code >= 400 {
			counts[key].Failed++
		}
	}
}

// DecodeAudit decodes a line of an audit log. If an API server was killed while it wrote one, the next API server has
// continued it: the last event is decoded, and what was cut off is lost.
func DecodeAudit(line []byte, event any) error {
	err := json.Unmarshal(line, event)
	if begin := bytes.LastIndex(line, []byte(`{"kind":"Event",`)); err != nil && begin > 0 {
		return json.Unmarshal(line[begin:], event)
	}
	return err
}

func (o CountOptions) includes(event *auditEvent) bool {
	ref := event.ObjectRef
	switch {
	case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, event.Verb):
		return false
	case event.RequestReceivedTimestamp.Before(o.Since):
		return false
	case len(o.Users) > 0 && !slices.Contains(o.Users, event.User.Username):
		return false
	case !strings.Contains(event.UserAgent, o.Agent):
		return false
	case ref.Resource == "leases" && ref.APIGroup == "coordination.k8s.io":
		return o.Leases
	case ref.Resource == "events":
		return o.Events
	case ref.APIGroup == "authorization.k8s.io" || ref.APIGroup == "authentication.k8s.io":
		return false // reviews are created, and write nothing
	}
	return true
}

func (e *auditEvent) resource() string {
	if e.ObjectRef.Subresource != "" {
		return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
	}
	return e.ObjectRef.Resource
}

func sorted(counts map[WriteCount]*WriteCount) []WriteCount {
	all := make([]WriteCount, 0, len(counts))
	for _, count := range counts {
		all = append(all, *count)
	}
	slices.SortFunc(all, func(a, b WriteCount) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Agent, b.Agent))
	})
	return all
}

// Total returns the sum of the counts.
func Total(counts []WriteCount) int {
	total := 0
	for _, count := range counts {
		total += count.Count
	}
	return total
}
