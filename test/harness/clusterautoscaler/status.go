package clusterautoscaler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// statusName is the name of the ConfigMap in kube-system.
	statusName = "cluster-autoscaler-status"
	// lastUpdated is the annotation with the time of the status, in writtenLayout.
	lastUpdated   = "cluster-autoscaler.kubernetes.io/last-updated"
	writtenLayout = "2006-01-02 15:04:05.999999999 -0700 MST"
)

// The values of conditions.
const (
	statusHealthy      = "Healthy"
	statusInProgress   = "InProgress"
	statusBackoff      = "Backoff"
	statusNoActivity   = "NoActivity"
	statusNoCandidates = "NoCandidates"
)

// report is the status, as cluster-autoscaler has written it since version 1.30.
type report struct {
	Time             string        `json:"time"`
	AutoscalerStatus string        `json:"autoscalerStatus"`
	ClusterWide      groupReport   `json:"clusterWide"`
	NodeGroups       []groupReport `json:"nodeGroups"`
}

// groupReport is the part of one group, and without a name that of all nodes.
type groupReport struct {
	Name      string    `json:"name,omitempty"`
	Health    health    `json:"health"`
	ScaleUp   condition `json:"scaleUp"`
	ScaleDown condition `json:"scaleDown"`
}

type health struct {
	condition  `json:",inline"`
	NodeCounts nodeCounts `json:"nodeCounts"`
	// Those of groups only.
	Target  *int `json:"cloudProviderTarget,omitempty"`
	MinSize *int `json:"minSize,omitempty"`
	MaxSize *int `json:"maxSize,omitempty"`
}

type condition struct {
	Status             string       `json:"status"`
	BackoffInfo        *backoffInfo `json:"backoffInfo,omitempty"`
	LastProbeTime      time.Time    `json:"lastProbeTime"`
	LastTransitionTime time.Time    `json:"lastTransitionTime"`
}

type backoffInfo struct {
	ErrorCode    string `json:"errorCode,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
}

type nodeCounts struct {
	Registered struct {
		Total      int `json:"total"`
		Ready      int `json:"ready"`
		NotStarted int `json:"notStarted"`
	} `json:"registered"`
	LongUnregistered int `json:"longUnregistered"`
	Unregistered     int `json:"unregistered"`
}

// reportOf returns the status after a scan. before is the last one, nil at first: it has the times of
// transitions.
func reportOf(v *view, before *report) *report {
	if before == nil {
		before = &report{}
	}
	known := map[string]*groupReport{"": &before.ClusterWide}
	for i := range before.NodeGroups {
		known[before.NodeGroups[i].Name] = &before.NodeGroups[i]
	}
	out := &report{Time: v.now.UTC().Format(writtenLayout), AutoscalerStatus: "Running"}
	all := groupReport{}
	scaleUp := statusNoActivity
	for _, g := range v.groups {
		r := groupReport{Name: g.Name}
		up := g.scaleUp()
		if up == statusInProgress {
			scaleUp = up
		}
		r.Health.NodeCounts = g.counts()
		all.Health.NodeCounts.add(r.Health.NodeCounts)
		least := 0
		r.Health.Target, r.Health.MinSize, r.Health.MaxSize = &g.target, &least, &g.MaxSize
		if up == statusBackoff {
			r.ScaleUp.BackoffInfo = &backoffInfo{g.backoff.code, g.backoff.message}
		}
		r.set(up, known[g.Name], v.now)
		out.NodeGroups = append(out.NodeGroups, r)
	}
	all.set(scaleUp, known[""], v.now)
	out.ClusterWide = all
	return out
}

// set sets the conditions, with the times of their transitions.
func (r *groupReport) set(scaleUp string, before *groupReport, now time.Time) {
	if before == nil {
		before = &groupReport{}
	}
	r.Health.change(statusHealthy, &before.Health.condition, now)
	r.ScaleUp.change(scaleUp, &before.ScaleUp, now)
	r.ScaleDown.change(statusNoCandidates, &before.ScaleDown, now)
}

func (c *condition) change(status string, before *condition, now time.Time) {
	c.Status, c.LastProbeTime, c.LastTransitionTime = status, now.UTC(), now.UTC()
	if before.Status == status {
		c.LastTransitionTime = before.LastTransitionTime
	}
}

func (g *groupView) scaleUp() string {
	switch {
	case g.ready < g.target:
		return statusInProgress
	case g.backoff != nil:
		return statusBackoff
	}
	return statusNoActivity
}

func (g *groupView) counts() (out nodeCounts) {
	out.Registered.Total, out.Registered.Ready, out.Registered.NotStarted = g.registered, g.ready, g.registered-g.ready
	out.Unregistered = max(g.target-g.registered, 0)
	return out
}

func (c *nodeCounts) add(other nodeCounts) {
	c.Registered.Total += other.Registered.Total
	c.Registered.Ready += other.Registered.Ready
	c.Registered.NotStarted += other.Registered.NotStarted
	c.Unregistered += other.Unregistered
}

// configMap returns the ConfigMap with a status.
func (r *report) configMap() (*corev1.ConfigMap, error) {
	text, err := yaml.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: statusName, Annotations: map[string]string{lastUpdated: r.Time},
		},
		Data: map[string]string{"status": string(text)},
	}, nil
}
