package stage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

func (s *Stage) templates(ctx context.Context) error {
	cpu := "100m"
	if s.Kind.Growing {
		cpu = growingCPU
	}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
	size := resource.MustParse("1Gi")
	for name, home := range map[string]v1alpha1.TemplateHome{workload.PlainTemplate: {}, workload.HomeTemplate: {Mode: v1alpha1.HomePerSession, Size: &size}} {
		t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		t.Spec.Image, t.Spec.Port, t.Spec.Home = "registry.example.com/desktop:1", 6901, home
		t.Spec.Resources.Default, t.Spec.Timeout.Default, t.Spec.Timeout.Max = requests, "8h", "12h"
		if err := s.Watch.Hub.Create(ctx, t); err != nil {
			return fmt.Errorf("making templates: %w", err)
		}
	}
	return nil
}

// AwaitTemplates waits until every member can run the templates.
func (s *Stage) AwaitTemplates(ctx context.Context, templates ...string) error {
	return Poll(ctx, 2*time.Minute, func(ctx context.Context) error {
		for _, name := range templates {
			t := &v1alpha1.VDITemplate{}
			if err := s.Watch.Hub.Get(ctx, client.ObjectKey{Name: name}, t); err != nil {
				return err
			}
			if int(t.Status.AvailableClusters) < len(s.Fleet.Members) {
				return fmt.Errorf("template %s can run in %d members", name, t.Status.AvailableClusters)
			}
		}
		return nil
	})
}
