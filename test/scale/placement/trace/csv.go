package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of rows.
const (
	kindMember   = "member"
	kindNode     = "node"
	kindSession  = "session"
	kindPod      = "pod"
	kindLost     = "lost"
	kindNodeLost = "nodelost"
)

// columns of a file, in the order in which they are written.
var columns = []string{"kind", "at", "duration", "name", "member", "region", "namespace", "user", "weight", "cpu", "memory", "gpu"}

// Read reads a trace from CSV, with its columns in any order.
func Read(from io.Reader) (*Trace, error) {
	r := csv.NewReader(from)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	place := map[string]int{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("column %q is not one of %s", name, strings.Join(columns, ", "))
		}
		place[name] = i
	}
	t := &Trace{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return t, t.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("reading a row: %w", err)
		}
		row := reader{record: record, place: place}
		if row.into(t); row.err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, row.err)
		}
	}
}

// reader reads one row; it keeps the first error.
type reader struct {
	record []string
	place  map[string]int
	err    error
}

func (r *reader) into(t *Trace) {
	switch kind := r.text("kind"); kind {
	case kindMember:
		t.Members = append(t.Members, Member{Name: r.text("name"), Region: r.text("region"), Weight: int32(r.number("weight"))}) //nolint:gosec // a weight is small
	case kindNode:
		t.Nodes = append(t.Nodes, Node{Name: r.text("name"), Member: r.text("member"), Size: r.size()})
	case kindSession:
		t.Sessions = append(t.Sessions, Session{
			Name: r.text("name"), Namespace: r.text("namespace"), User: r.text("user"), Region: r.text("region"),
			At: r.seconds("at"), Runs: r.seconds("duration"), Size: r.size(),
		})
	case kindPod:
		t.Pods = append(t.Pods, Pod{Name: r.text("name"), Member: r.text("member"), At: r.seconds("at"), Runs: r.seconds("duration"), Size: r.size()})
	case kindLost:
		t.Losses = append(t.Losses, Loss{Member: r.text("member"), At: r.seconds("at"), Lasts: r.seconds("duration")})
	case kindNodeLost:
		t.Losses = append(t.Losses, Loss{Member: r.text("member"), Node: r.text("name"), At: r.seconds("at"), Lasts: r.seconds("duration")})
	default:
		r.fail(fmt.Errorf("kind %q is not known", kind))
	}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) text(column string) string {
	if i, ok := r.place[column]; ok {
		return strings.TrimSpace(r.record[i])
	}
	return ""
}

func (r *reader) number(column string) int64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.fail(fmt.Errorf("column %s: %w", column, err))
	}
	return n
}

func (r *reader) seconds(column string) time.Duration {
	s, err := strconv.ParseFloat(r.text(column), 64)
	if err != nil {
		r.fail(fmt.Errorf("column %s: %w", column, err))
	}
	return toMillisecond(s)
}

func (r *reader) size() Size {
	return Size{CPU: r.number("cpu"), Memory: r.number("memory"), GPU: r.number("gpu")}
}

// toMillisecond returns seconds as a duration in milliseconds, the precision of a file.
func toMillisecond(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// Write writes a trace as CSV, which Read reads back unchanged.
func (t *Trace) Write(to io.Writer) error {
	w := csv.NewWriter(to)
	if err := w.Write(columns); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	for _, row := range t.rows() {
		record := make([]string, len(columns))
		for i, column := range columns {
			record[i] = row[column]
		}
		if err := w.Write(record); err != nil {
			return fmt.Errorf("writing a row: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

func (t *Trace) rows() []map[string]string {
	var out []map[string]string
	add := func(kind string, row map[string]string, sizes ...Size) {
		row["kind"] = kind
		for _, s := range sizes {
			row["cpu"], row["memory"], row["gpu"] = fmt.Sprint(s.CPU), fmt.Sprint(s.Memory), fmt.Sprint(s.GPU)
		}
		out = append(out, row)
	}
	for _, m := range t.Members {
		add(kindMember, map[string]string{"name": m.Name, "region": m.Region, "weight": fmt.Sprint(m.Weight)})
	}
	for _, n := range t.Nodes {
		add(kindNode, map[string]string{"name": n.Name, "member": n.Member}, n.Size)
	}
	for i := range t.Sessions {
		s := &t.Sessions[i]
		add(kindSession, map[string]string{
			"name": s.Name, "namespace": s.Namespace, "user": s.User, "region": s.Region, "at": text(s.At), "duration": text(s.Runs),
		}, s.Size)
	}
	for i := range t.Pods {
		p := &t.Pods[i]
		add(kindPod, map[string]string{"name": p.Name, "member": p.Member, "at": text(p.At), "duration": text(p.Runs)}, p.Size)
	}
	for _, l := range t.Losses {
		kind := kindLost
		if l.Node != "" {
			kind = kindNodeLost
		}
		add(kind, map[string]string{"member": l.Member, "name": l.Node, "at": text(l.At), "duration": text(l.Lasts)})
	}
	return out
}

func text(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
