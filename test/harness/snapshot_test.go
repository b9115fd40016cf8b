package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARestoredEtcdHoldsWhatItHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	ctx := t.Context()
	cp, err := StartControlPlane(ctx, ControlPlaneOptions{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	create := func(name string) {
		t.Helper()
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := cp.Client.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	if err := cp.SaveEtcd(ctx, "copy"); err != nil {
		t.Fatal(err)
	}
	create("after")
	if err := cp.RestoreEtcd(ctx, "copy"); err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Client.CoreV1().ConfigMaps("default").Get(ctx, "before", metav1.GetOptions{}); err != nil {
		t.Errorf("what the copy had: %v", err)
	}
	if _, err := cp.Client.CoreV1().ConfigMaps("default").Get(ctx, "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what came after the copy: %v, want it not to be there", err)
	}
}
