package nodegroup

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// object parses YAML as an unstructured object has it.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const poolText = `
metadata: {name: general}
spec:
  limits: {cpu: "100", memory: 200Gi, nodes: "7"}
  template:
    metadata: {labels: {team: a}}
    spec:
      requirements: [{key: disk, operator: In, values: [ssd], minValues: 1}]
      taints: [{key: desktops, effect: NoSchedule}]
      startupTaints: [{key: starting, effect: NoExecute}]
status:
  conditions: [{type: Ready, status: "True"}]
`

func TestReadNodePool(t *testing.T) {
	got, err := NodePoolOf(object(t, poolText))
	if err != nil {
		t.Fatal(err)
	}
	want := NodePool{
		Name: "general", Labels: map[string]string{"team": "a"}, Taints: []corev1.Taint{{Key: "desktops", Effect: corev1.TaintEffectNoSchedule}},
		Requirements: []Requirement{{Key: "disk", Operator: "In", Values: []string{"ssd"}}},
		Limits:       Amounts{corev1.ResourceCPU: 100_000, corev1.ResourceMemory: 200 * gi}, MaxNodes: ptr(int32(7)),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for change, says := range map[string]string{
		"{metadata: {name: x}}": "is not Ready yet",
		`{metadata: {name: x}, status: {conditions: [{type: Ready, status: "False", message: no NodeClass}]}}`: "is not Ready: no NodeClass",
		`{metadata: {name: x}, spec: {replicas: 3}}`:                                                           "spec.replicas",
		`{metadata: {name: x, deletionTimestamp: "2026-03-02T09:00:00Z"}}`:                                     "is being deleted",
	} {
		if got, err := NodePoolOf(object(t, change)); err != nil || !strings.Contains(got.Problem, says) {
			t.Errorf("%s: %q, %v", change, got.Problem, err)
		}
	}
	if _, err := NodePoolOf(object(t, "{spec: {limits: 3}}")); err == nil {
		t.Error("limits that are a number are read")
	}
}

func TestReadNodeClaim(t *testing.T) {
	got, err := NodeClaimOf(object(t, `
metadata: {name: c, labels: {karpenter.sh/nodepool: general}, creationTimestamp: "2026-03-02T09:00:00Z"}
status:
  nodeName: node-1
  allocatable: {cpu: 15800m}
  capacity: {cpu: "16"}
  conditions: [{type: Launched, status: "True", message: launched}, {type: Initialized, status: "False"}]
`))
	want := NodeClaim{
		Name: "c", NodePool: "general", Node: "node-1", Created: start, Launched: true,
		Allocatable: Amounts{corev1.ResourceCPU: 15800}, Capacity: Amounts{corev1.ResourceCPU: 16000},
	}
	if got.Created.Equal(want.Created) {
		got.Created = want.Created
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v, %v", got, want, err)
	}
	got, err = NodeClaimOf(object(t, `{metadata: {name: c}, status: {conditions: [{type: Launched, status: Unknown, message: no capacity}]}}`))
	if err != nil || got.Launched || got.Message != "no capacity" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNodeClaimThatAwaitsReconciliationHasNoMessage(t *testing.T) {
	got, err := NodeClaimOf(object(t, `
metadata: {name: c}
status: {conditions: [{type: Launched, status: Unknown, reason: AwaitingReconciliation, message: object is awaiting reconciliation}]}
`))
	if err != nil || got.Launched || got.Message != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadAutoscalerStatus(t *testing.T) {
	unhealthy := AutoscalerGroup{Target: 4, Most: 7, BackedOff: true, Message: "cluster-autoscaler adds no node while too many nodes of the group are not Ready"}
	want := map[string]AutoscalerGroup{
		"asg-1": {Target: 3, Most: 10},
		"asg-2": {Target: 0, Most: 5, BackedOff: true, Message: "quota exceeded"},
		"asg-3": unhealthy,
	}
	text := map[string]AutoscalerGroup{"asg-1": want["asg-1"], "asg-2": {Most: 5, BackedOff: true, Message: "cluster-autoscaler gives no reason"}, "asg-3": unhealthy}
	for name, tc := range map[string]struct {
		status string
		want   map[string]AutoscalerGroup
	}{
		"YAML": {`
autoscalerStatus: Running
nodeGroups:
- name: asg-1
  health: {status: Healthy, cloudProviderTarget: 3, minSize: 1, maxSize: 10}
  scaleUp: {status: InProgress}
- name: asg-2
  health: {status: Healthy, cloudProviderTarget: 0, maxSize: 5}
  scaleUp: {status: Backoff, backoffInfo: {errorCode: QUOTA, errorMessage: quota exceeded}}
- name: asg-3
  health: {status: Unhealthy, cloudProviderTarget: 4, maxSize: 7}
  scaleUp: {status: Unhealthy}
`, want},
		"text": {`Cluster-autoscaler status at 2026-03-02 09:00:00 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=3 unready=0)
  ScaleUp:     InProgress (ready=3 registered=3)

NodeGroups:
  Name:        asg-1
  Health:      Healthy (ready=3 unready=0 registered=3 cloudProviderTarget=3 (minSize=1, maxSize=10))
               LastProbeTime:      2026-03-02 09:00:00 +0000 UTC
  ScaleUp:     InProgress (ready=3 cloudProviderTarget=3)

  Name:        asg-2
  Health:      Healthy (ready=0 cloudProviderTarget=0 (minSize=0, maxSize=5))
  ScaleUp:     Backoff (ready=0 cloudProviderTarget=0)

  Name:        asg-3
  Health:      Unhealthy (ready=0 cloudProviderTarget=4 (minSize=0, maxSize=7))
  ScaleUp:     Unhealthy (ready=0 cloudProviderTarget=4)
`, text},
	} {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationLastUpdated: "2026-03-02 09:00:00.5 +0000 UTC m=+10.1"}}, Data: map[string]string{"status": tc.status}}
		got := AutoscalerStatusOf(c)
		if got.Problem != "" || got.Written.Sub(start) != 500*time.Millisecond || !reflect.DeepEqual(got.Groups, tc.want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, tc.want)
		}
	}
	for _, c := range []*corev1.ConfigMap{
		{Data: map[string]string{"status": "{}"}},
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationLastUpdated: "2026-03-02 09:00:00.5 +0000 UTC"}}, Data: map[string]string{"status": "\t:"}},
	} {
		if got := AutoscalerStatusOf(c); got.Problem == "" {
			t.Errorf("%v is read: %+v", c, got)
		}
	}
}
