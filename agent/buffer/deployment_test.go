package buffer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var (
	class   = &capacity.BufferClass{UID: "class", Value: -10}
	options = &Options{Namespace: "vdi-system", Image: "vdi-agent:1", PullSecrets: []string{"registry"}}
)

// desk returns a buffer of a template that requests 1 core and 1 GiB.
func desk(slots, fits int32, change ...func(*fleetv1.TemplateRequirements)) capacity.Buffer {
	r := &fleetv1.TemplateRequirements{Name: "desk", Revision: "r1", Resources: map[string]string{"cpu": "1", "memory": "1Gi"}}
	for _, c := range change {
		c(r)
	}
	return capacity.Buffer{Template: "desk", Requirements: r, Slots: slots, Fits: fits}
}

func rendered(t *testing.T, b capacity.Buffer) *appsv1.Deployment {
	t.Helper()
	d, err := deployment(&b, class, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADeploymentRequestsWhatSessionsRequest(t *testing.T) {
	d := rendered(t, desk(5, 9, func(r *fleetv1.TemplateRequirements) {
		r.Resources["nvidia.com/gpu"] = "1"
		r.NodeSelector, r.RuntimeClassName = map[string]string{"pool": "gpu"}, "kata"
		r.Tolerations = []*fleetv1.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}}
	}))
	if *d.Spec.Replicas != 5 {
		t.Errorf("%d replicas", *d.Spec.Replicas)
	}
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	for name, want := range map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if request.String() != want || limit.String() != want {
			t.Errorf("%s: %s of %s", name, request.String(), limit.String())
		}
	}
	if pod.NodeSelector["pool"] != "gpu" || len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != "gpu" || ptr.Deref(pod.RuntimeClassName, "") != "kata" {
		t.Errorf("where it may run: %+v", pod)
	}
	if pod.PriorityClassName != "vdi-buffer" || ptr.Deref(pod.TerminationGracePeriodSeconds, -1) != 0 || ptr.Deref(pod.AutomountServiceAccountToken, true) {
		t.Errorf("a desktop would wait for it, or it has access to the API: %+v", pod)
	}
	if c.Image != "vdi-agent:1" || strings.Join(c.Args, " ") != "pause" || len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("what it runs: %+v", pod)
	}
	if labels := d.Spec.Template.Labels; labels[v1alpha1.LabelBuffer] != "desk" || !selector().Matches(toSet(labels)) || !selector().Matches(toSet(d.Labels)) {
		t.Errorf("labels %v", labels)
	}
	if selector().Matches(toSet(map[string]string{v1alpha1.LabelBuffer: "balloon"})) {
		t.Error("a Deployment of the platform team is taken for the agent's")
	}
	if few := rendered(t, desk(5, 2)); *few.Spec.Replicas != 2 {
		t.Errorf("%d replicas, and 2 fit", *few.Spec.Replicas)
	}
	if rolling := d.Spec.Strategy.RollingUpdate; rolling.MaxSurge.IntValue() != 0 {
		t.Error("an update adds Pods, and nodes for them")
	}
	bad := desk(5, 5, func(r *fleetv1.TemplateRequirements) { r.Resources["cpu"] = "many" })
	if _, err := deployment(&bad, class, options); err == nil {
		t.Error("a malformed quantity is accepted")
	}
}

func toSet(m map[string]string) labelSet { return m }

// labelSet is labels.Labels.
type labelSet map[string]string

func (s labelSet) Has(key string) bool              { _, ok := s[key]; return ok }
func (s labelSet) Get(key string) string            { return s[key] }
func (s labelSet) Lookup(key string) (string, bool) { v, ok := s[key]; return v, ok }

func TestWhetherADeploymentDiffers(t *testing.T) {
	selective := func(r *fleetv1.TemplateRequirements) { r.NodeSelector = map[string]string{"pool": "a"} }
	want := rendered(t, desk(5, 5, selective))
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"nothing":                     {func(*appsv1.Deployment) {}, false},
		"a default of the API server": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.SchedulerName = "default-scheduler" }, false},
		"a label of others":           {func(d *appsv1.Deployment) { d.Labels["team"] = "a" }, false},
		"another notation":            {func(d *appsv1.Deployment) { set(d, "cpu", "1000m") }, false},
		"its request":                 {func(d *appsv1.Deployment) { set(d, "cpu", "2") }, true},
		"its replicas":                {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](4) }, true},
		"its label":                   {func(d *appsv1.Deployment) { delete(d.Labels, v1alpha1.LabelManagedBy) }, true},
		"its owner":                   {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, true},
		"its nodes":                   {func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = nil }, true},
		"what was set before":         {func(d *appsv1.Deployment) { d.Annotations[hashAnnotation] = "other" }, true},
	} {
		got := rendered(t, desk(5, 5, selective))
		tc.change(got)
		if is := differs(got, want); is != tc.want {
			t.Errorf("%s: differs is %t", name, is)
		}
		if now := revised(got, want); differs(now, want) {
			t.Errorf("%s: it still differs", name)
		}
	}
	// A field that is no longer set differs by the hash alone.
	if !differs(want, rendered(t, desk(5, 5))) {
		t.Error("a node selector that was removed is kept")
	}
}

func set(d *appsv1.Deployment, name corev1.ResourceName, quantity string) {
	parsed, err := deployment(ptr.To(desk(1, 1, func(r *fleetv1.TemplateRequirements) { r.Resources[string(name)] = quantity })), class, options)
	if err != nil {
		panic(err)
	}
	d.Spec.Template.Spec.Containers[0].Resources = parsed.Spec.Template.Spec.Containers[0].Resources
}

func TestProblemsOfBuffers(t *testing.T) {
	status := func(ready int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "vdi-buffer-desk"}}
		d.Spec.Replicas, d.Status.ReadyReplicas, d.Status.Conditions = ptr.To[int32](5), ready, conditions
		return d
	}
	denied := appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}
	past := denied
	past.Status = corev1.ConditionFalse
	unavailable := desk(5, 0)
	unavailable.Unavailable = "the member has no runtime class"
	unknown := desk(5, 0)
	unknown.Requirements = nil
	for name, tc := range map[string]struct {
		b      capacity.Buffer
		class  *capacity.BufferClass
		d      *appsv1.Deployment
		failed string
		want   string
	}{
		"held":                   {desk(5, 9), class, status(5), "", "5+0"},
		"about to be held":       {desk(5, 9), class, status(3), "", "3+2"},
		"more than it is to be":  {desk(5, 9), class, status(8), "", "5+0"},
		"not there yet":          {desk(5, 9), class, nil, "", "0+0"},
		"not read yet":           {unknown, class, status(5), "", "5+0"},
		"less fits":              {desk(5, 2), class, status(2), "", "2+3 NoBufferCapacity: 2 of 5 slots fit on the member's nodes and on those that its node groups may add: add nodes, raise the limit of a node group, or lower the slots of the buffer"},
		"no class":               {desk(5, 9), nil, status(5), "", "5+0 NoBufferPriorityClass: the member has no PriorityClass vdi-buffer: set buffers.enabled of the agent's chart, which creates it"},
		"a class of desktops":    {desk(5, 9), &capacity.BufferClass{Value: 0}, nil, "", "0+0 NoBufferPriorityClass: PriorityClass vdi-buffer of the member has value 0, so that desktops would not preempt the buffer: delete it, and install the agent's chart again"},
		"a template that can't":  {unavailable, class, nil, "", "0+0 BufferTemplateUnavailable: the member has no runtime class"},
		"denied":                 {desk(5, 9), class, nil, "forbidden", "0+0 BufferFailed: forbidden"},
		"Pods are denied":        {desk(5, 9), class, status(0, denied), "", "0+5 BufferFailed: Pods of Deployment vdi-system/vdi-buffer-desk can't be created: exceeded quota"},
		"Pods were denied":       {desk(5, 9), class, status(5, past), "", "5+0"},
		"a message of a webhook": {desk(5, 9), class, nil, "a\x1b[2Jb", "0+0 BufferFailed: a [2Jb"},
	} {
		s := stateOf(&tc.b, tc.class, tc.d, tc.failed)
		got := strings.TrimSpace(strings.TrimSuffix(textOf(s), ": "))
		if got != tc.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tc.want)
		}
	}
}

func TestMetricsOfBuffersFollowThem(t *testing.T) {
	series := func() (out []string) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(slotsMetric)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.Metric {
				out = append(out, fmt.Sprintf("%s %s %v", m.Label[1].GetValue(), m.Label[0].GetValue(), m.Gauge.GetValue()))
			}
		}
		slices.Sort(out)
		return out
	}
	show(nil, map[string]int32{"desk": 5, "gpu": 1}, []*fleetv1.BufferStatus{{Template: "desk", Held: 3, Pending: 2}, {Template: "gpu"}})
	want := "desk held 3, desk pending 2, desk wanted 5, gpu held 0, gpu pending 0, gpu wanted 1"
	if got := strings.Join(series(), ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	show(map[string]int32{"desk": 5, "gpu": 1}, map[string]int32{"gpu": 1}, []*fleetv1.BufferStatus{{Template: "gpu", Held: 1}})
	want = "gpu held 1, gpu pending 0, gpu wanted 1"
	if got := strings.Join(series(), ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
