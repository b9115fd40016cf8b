package api

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("Field selectors", func() {
	names := func(ctx context.Context, plural, selector string) []string {
		GinkgoHelper()
		list, err := client(plural).List(ctx, metav1.ListOptions{FieldSelector: selector})
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		slices.Sort(names)
		return names
	}

	It("find sessions by user, template, phase and member", func(ctx context.Context) {
		store(ctx, "vdisessions", build("vdisessions", `{metadata: {name: waiting}, status: {phase: Pending}}`))
		store(ctx, "vdisessions", build("vdisessions", placed, `{metadata: {name: placed}, spec: {template: gpu}, status: {phase: Running}}`))
		store(ctx, "vdisessions", build("vdisessions", `{metadata: {name: bob}, spec: {user: bob@example.com}}`))
		Expect(names(ctx, "vdisessions", "spec.user=alice@example.com")).To(Equal([]string{"placed", "waiting"}))
		Expect(names(ctx, "vdisessions", "spec.user=bob@example.com,spec.template=browser")).To(Equal([]string{"bob"}))
		Expect(names(ctx, "vdisessions", "spec.template=gpu")).To(Equal([]string{"placed"}))
		Expect(names(ctx, "vdisessions", "status.phase!=Running")).To(Equal([]string{"bob", "waiting"}))
		Expect(names(ctx, "vdisessions", "status.placement.clusterName=eu-west")).To(Equal([]string{"placed"}))
		Expect(names(ctx, "vdisessions", "status.placement.clusterName=")).To(Equal([]string{"bob", "waiting"}))
	})

	It("find homes by user, template and member", func(ctx context.Context) {
		store(ctx, "vdihomes", build("vdihomes"))
		store(ctx, "vdihomes", build("vdihomes", `{metadata: {name: other}, spec: {user: bob@example.com, template: gpu, clusterName: us-east}}`))
		Expect(names(ctx, "vdihomes", "spec.user=bob@example.com")).To(Equal([]string{"other"}))
		Expect(names(ctx, "vdihomes", "spec.template=developer")).To(Equal([]string{"home-alice"}))
		Expect(names(ctx, "vdihomes", "spec.clusterName=us-east")).To(Equal([]string{"other"}))
	})

	It("find the templates that a catalog offers", func(ctx context.Context) {
		store(ctx, "vditemplates", build("vditemplates"))
		store(ctx, "vditemplates", build("vditemplates", `{metadata: {name: hidden}, spec: {state: Hidden}}`))
		Expect(names(ctx, "vditemplates", "spec.state=Enabled")).To(Equal([]string{"browser"}))
	})

	It("find members by region", func(ctx context.Context) {
		store(ctx, "memberclusters", build("memberclusters"))
		store(ctx, "memberclusters", build("memberclusters", `{metadata: {name: us-east}, spec: {region: us-east}}`))
		Expect(names(ctx, "memberclusters", "spec.region=us-east")).To(Equal([]string{"us-east"}))
	})
})
