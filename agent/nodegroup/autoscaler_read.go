package nodegroup

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// AnnotationLastUpdated has the time of cluster-autoscaler's status.
const AnnotationLastUpdated = "cluster-autoscaler.kubernetes.io/last-updated"

// writtenLayout is how cluster-autoscaler writes it.
const writtenLayout = "2006-01-02 15:04:05.999999999 -0700 MST"

// reasonsAgainst are why a group adds no nodes for a time, by its status of scale-up, if the status gives no other.
var reasonsAgainst = map[string]string{
	"Backoff":   "cluster-autoscaler gives no reason",
	"Unhealthy": "cluster-autoscaler adds no node while too many nodes of the group are not Ready",
}

// autoscalerYAML is the part of the status that is read, as it is written since version 1.30.
type autoscalerYAML struct {
	NodeGroups []struct {
		Name   string `json:"name"`
		Health struct {
			Target int32 `json:"cloudProviderTarget"`
			Most   int32 `json:"maxSize"`
		} `json:"health"`
		ScaleUp struct {
			Status  string `json:"status"`
			Backoff struct {
				Code    string `json:"errorCode"`
				Message string `json:"errorMessage"`
			} `json:"backoffInfo"`
		} `json:"scaleUp"`
	} `json:"nodeGroups"`
}

// AutoscalerStatusOf reads the ConfigMap of cluster-autoscaler.
func AutoscalerStatusOf(c *corev1.ConfigMap) *AutoscalerStatus {
	out := &AutoscalerStatus{Groups: map[string]AutoscalerGroup{}}
	updated := c.Annotations[AnnotationLastUpdated]
	written, _, _ := strings.Cut(updated, " m=")
	var err error
	if out.Written, err = time.Parse(writtenLayout, written); err != nil {
		out.Problem = fmt.Sprintf("its annotation %s is %q, which is not a time", AnnotationLastUpdated, updated)
		return out
	}
	text := c.Data["status"]
	if strings.HasPrefix(text, "Cluster-autoscaler status at ") {
		out.readText(text)
		return out
	}
	var status autoscalerYAML
	if err := yaml.Unmarshal([]byte(text), &status); err != nil {
		out.Problem = err.Error()
		return out
	}
	for _, g := range status.NodeGroups {
		group := AutoscalerGroup{Target: g.Health.Target, Most: g.Health.Most}
		group.backOff(g.ScaleUp.Status, cmp.Or(g.ScaleUp.Backoff.Message, g.ScaleUp.Backoff.Code))
		out.Groups[g.Name] = group
	}
	return out
}

// backOff sets whether the group adds no nodes for a time, by its status of scale-up.
func (g *AutoscalerGroup) backOff(status, message string) {
	if reason, backedOff := reasonsAgainst[status]; backedOff {
		g.BackedOff, g.Message = true, cmp.Or(message, reason)
	}
}

// The lines of the text that versions before 1.30 write.
var (
	textName   = regexp.MustCompile(`^\s*Name:\s+(\S+)`)
	textHealth = regexp.MustCompile(`^\s*Health:.*cloudProviderTarget=(\d+).*maxSize=(\d+)`)
	textScale  = regexp.MustCompile(`^\s*ScaleUp:\s+(\w+)`)
)

func (s *AutoscalerStatus) readText(text string) {
	_, groups, _ := strings.Cut(text, "NodeGroups:")
	name, group := "", AutoscalerGroup{}
	for line := range strings.Lines(groups) {
		if m := textName.FindStringSubmatch(line); m != nil {
			name, group = m[1], AutoscalerGroup{}
		} else if m := textHealth.FindStringSubmatch(line); m != nil {
			group.Target, group.Most = number(m[1]), number(m[2])
		} else if m := textScale.FindStringSubmatch(line); m != nil {
			group.backOff(m[1], "")
		}
		if name != "" {
			s.Groups[name] = group
		}
	}
}

func number(digits string) int32 {
	n, _ := strconv.ParseInt(digits, 10, 32) // the expression admits digits only; too many are 0
	return int32(n)
}
