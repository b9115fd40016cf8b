package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// delayOfClass is the registration delay of the KWOKNodeClass of newCluster.
const delayOfClass = 20 * time.Second

func newCluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	class := &v1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "desktops"}}
	class.Spec.NodeRegistrationDelay.Duration = delayOfClass
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithStatusSubresource(&v1.NodeClaim{}, &corev1.Node{}).
		WithObjects(append(objects, class)...).Build()
}

func faultsConfig(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: faultsKey.Name, Namespace: faultsKey.Namespace}, Data: data}
}

var gpu = corev1.ResourceName("nvidia.com/gpu")

var startup = corev1.Taint{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}

// launchedClaim returns a NodeClaim whose instance is launched now.
func launchedClaim() *v1.NodeClaim {
	claim := newClaim("desktops-1")
	claim.Spec.StartupTaints = []corev1.Taint{startup}
	claim.Status.ProviderID = "kwok://node-1"
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), gpu: resource.MustParse("4")}
	claim.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15900m"), gpu: resource.MustParse("4")}
	claim.StatusConditions().SetTrue(v1.ConditionTypeLaunched)
	return claim
}

// at returns the controller at a time after the start of the test.
func at(kube client.Client, after time.Duration) *instances {
	return &instances{kube: kube, faults: faultReader{kube}, now: func() time.Time { return time.Now().Add(after) }}
}

func reconcileClaim(t *testing.T, i *instances) reconcile.Result {
	t.Helper()
	result, err := i.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "desktops-1"}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// node returns the node of launchedClaim, nil if it does not exist.
func node(t *testing.T, kube client.Client) *corev1.Node {
	t.Helper()
	var found corev1.Node
	err := kube.Get(t.Context(), types.NamespacedName{Name: "node-1"}, &found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &found
}

func TestANodeRegistersAfterItsDelay(t *testing.T) {
	kube := newCluster(t, launchedClaim())
	left := reconcileClaim(t, at(kube, 0)).RequeueAfter
	if found := node(t, kube); found != nil || left <= 0 || left > delayOfClass {
		t.Fatalf("at its launch: %v, due in %s", found, left)
	}
	reconcileClaim(t, at(kube, delayOfClass+time.Second))
	found := node(t, kube)
	if found == nil {
		t.Fatal("there is no node after the delay")
	}
	if found.Spec.ProviderID != "kwok://node-1" || found.Labels[v1.NodePoolLabelKey] != "desktops" || found.Labels[corev1.LabelHostname] != "desktops-1" {
		t.Errorf("the node is %+v", found)
	}
	if len(found.Spec.Taints) != 1 || !found.Spec.Taints[0].MatchTaint(&v1.UnregisteredNoExecuteTaint) {
		t.Errorf("its taints are %v, want that of an unregistered node", found.Spec.Taints)
	}
	if _, early := found.Status.Capacity[gpu]; early || found.Status.Capacity.Cpu().String() != "16" {
		t.Errorf("its capacity is %v, want 16 cores and no GPU yet", found.Status.Capacity)
	}
}

func TestFaultsOfTheRegistration(t *testing.T) {
	for name, test := range map[string]struct {
		faults string
		after  time.Duration
		exists bool
	}{
		"delayed":         {`{"registration":"1m"}`, 70 * time.Second, false},
		"after the delay": {`{"registration":"1m"}`, 90 * time.Second, true},
		"never":           {`{"registration":"never"}`, 1000 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			kube := newCluster(t, launchedClaim(), faultsConfig(map[string]string{"desktops": test.faults}))
			reconcileClaim(t, at(kube, test.after))
			if exists := node(t, kube) != nil; exists != test.exists {
				t.Errorf("the node exists: %t, want %t", exists, test.exists)
			}
		})
	}
}

func TestNoNodeIsCreatedForAClaim(t *testing.T) {
	for name, change := range map[string]func(*v1.NodeClaim){
		"that is not launched": func(claim *v1.NodeClaim) { claim.StatusConditions().SetUnknown(v1.ConditionTypeLaunched) },
		"that is deleted": func(claim *v1.NodeClaim) {
			now := metav1.Now()
			claim.DeletionTimestamp, claim.Finalizers = &now, []string{v1.TerminationFinalizer}
		},
		"whose node was registered and is gone": func(claim *v1.NodeClaim) { claim.StatusConditions().SetTrue(v1.ConditionTypeRegistered) },
	} {
		t.Run(name, func(t *testing.T) {
			claim := launchedClaim()
			change(claim)
			kube := newCluster(t, claim)
			reconcileClaim(t, at(kube, time.Hour))
			if found := node(t, kube); found != nil {
				t.Errorf("there is %+v", found)
			}
		})
	}
}

// registeredNode returns the node of a claim once Karpenter has registered it.
func registeredNode(claim *v1.NodeClaim) *corev1.Node {
	n := newNode(claim)
	n.CreationTimestamp = metav1.Now()
	n.Labels[v1.NodeRegisteredLabelKey] = "true"
	n.Spec.Taints = []corev1.Taint{startup, {Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

func TestANodeIsCompletedWhenItsFaultsAllow(t *testing.T) {
	for name, test := range map[string]struct {
		faults           string
		after            time.Duration
		devices, tainted bool
		next             time.Duration // rounded up to seconds; 0 if nothing is due
	}{
		"without faults": {`{}`, 0, true, false, 0},
		"late devices":   {`{"devices":"30s"}`, 10 * time.Second, false, false, 20 * time.Second},
		"devices at last": {
			`{"devices":"30s","startupTaints":"1m"}`, 40 * time.Second, true, true, 20 * time.Second,
		},
		"neither ever":       {`{"devices":"never","startupTaints":"never"}`, 1000 * time.Hour, false, true, 0},
		"taints at last":     {`{"devices":"never","startupTaints":"1m"}`, 70 * time.Second, false, false, 0},
		"the first of those": {`{"devices":"10s","startupTaints":"1m"}`, 5 * time.Second, false, true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			claim := launchedClaim()
			kube := newCluster(t, claim, registeredNode(claim), faultsConfig(map[string]string{"desktops": test.faults}))
			result := reconcileClaim(t, at(kube, test.after))
			found := node(t, kube)
			if _, devices := found.Status.Allocatable[gpu]; devices != test.devices {
				t.Errorf("it has devices: %t, want %t", devices, test.devices)
			}
			want := []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
			if test.tainted {
				want = append([]corev1.Taint{startup}, want...)
			}
			if len(found.Spec.Taints) != len(want) {
				t.Errorf("its taints are %v, want %v", found.Spec.Taints, want)
			}
			// The creation time of a node is in whole seconds.
			if off := result.RequeueAfter - test.next; off < -2*time.Second || off > time.Second {
				t.Errorf("the next step is due in %s, want %s", result.RequeueAfter, test.next)
			}
		})
	}
}

func TestStartupTaintsStayUntilTheNodeIsRegistered(t *testing.T) {
	claim := launchedClaim()
	unregistered := registeredNode(claim)
	delete(unregistered.Labels, v1.NodeRegisteredLabelKey)
	kube := newCluster(t, claim, unregistered)
	reconcileClaim(t, at(kube, time.Hour))
	if taints := node(t, kube).Spec.Taints; len(taints) != 2 {
		t.Errorf("the taints are %v: Karpenter would add the startup taint again", taints)
	}
}

func TestTheNodeOfADeletedInstanceIsDeleted(t *testing.T) {
	static := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "static", Labels: map[string]string{corev1.LabelHostname: "desktops-1"}}}
	kube := newCluster(t, registeredNode(launchedClaim()), static)
	reconcileClaim(t, at(kube, 0))
	if found := node(t, kube); found != nil {
		t.Errorf("there is %+v", found)
	}
	if err := kube.Get(t.Context(), types.NamespacedName{Name: "static"}, &corev1.Node{}); err != nil {
		t.Errorf("a static node of that hostname: %v", err)
	}
}

func TestEventsOfNodesAndFaultsReachTheirClaims(t *testing.T) {
	claim := launchedClaim()
	i := at(newCluster(t, claim), 0)
	for name, test := range map[string]struct {
		requests []reconcile.Request
		want     int
	}{
		"a node of an instance": {claimOfNode(t.Context(), newNode(claim)), 1},
		"a static node":         {claimOfNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: claim.Labels}}), 0},
		"the faults":            {i.allClaims(t.Context(), faultsConfig(nil)), 1},
		"another ConfigMap":     {i.allClaims(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}}), 0},
	} {
		if len(test.requests) != test.want || test.want == 1 && test.requests[0].Name != claim.Name {
			t.Errorf("%s: %v, want %d", name, test.requests, test.want)
		}
	}
}
