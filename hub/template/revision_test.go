package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestTemplateSet(t *testing.T) {
	template := func(name, image string) v1alpha1.VDITemplate {
		t := v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		t.Spec.Image = image
		t.Spec.Resources.Default = corev1.ResourceList{"cpu": resource.MustParse("500m")}
		t.Spec.Home.Mode = v1alpha1.HomePerUser
		return t
	}
	revision := func(name, revision, raw string) appsv1.ControllerRevision {
		cr := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Name: RevisionName(name, revision), Labels: map[string]string{LabelTemplate: name, LabelRevision: revision},
		}}
		cr.Data.Raw = []byte(raw)
		return cr
	}
	b, a := template("b", "b:1"), template("a", "a:2")
	current, err := v1alpha1.RevisionOf(&a.Spec)
	if err != nil {
		t.Fatal(err)
	}
	set, revisions, unreadable := templateSet([]v1alpha1.VDITemplate{b, a}, []appsv1.ControllerRevision{
		revision("a", "0old", `{"image":"a:1","port":80,"home":{"mode":"None"}}`),
		revision("a", current, `{"image":"a:2","port":80,"home":{"mode":"PerUser"}}`),
		revision("broken", "x", `{"image":`),
	})
	var got []string
	for _, r := range set.GetTemplates() {
		home := "none"
		if r.GetHome() {
			home = "home"
		}
		got = append(got, r.GetName()+"@"+r.GetRevision()+" "+home)
	}
	if diff := cmp.Diff([]string{"a@0old none", "a@" + current + " home", "b@" + revisions["b"] + " home"}, got); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	if revisions["a"] != current || len(revisions) != 2 {
		t.Errorf("current revisions are %v", revisions)
	}
	if set.GetTemplates()[2].GetResources()["cpu"] != "500m" {
		t.Errorf("resources are %v", set.GetTemplates()[2].GetResources())
	}
	if first, second := set.GetTemplates()[0].GetImage(), set.GetTemplates()[1].GetImage(); first != "a:1" || second != "a:2" {
		t.Errorf("images of the revisions are %s and %s", first, second)
	}
	if unreadable == nil {
		t.Error("what can't be read was not reported")
	}
}
