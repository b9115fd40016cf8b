package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// root is the root of the repository.
const root = "../.."

// defaultTimeout applies where no guarantee sets a time limit.
const defaultTimeout = 5 * time.Minute

// floor is the guaranteed time to start a desktop whose image is in the node. A machine that is
// busy otherwise sets E2E_FLOOR, such as 5m.
var floor = 30 * time.Second

func init() {
	if text := os.Getenv("E2E_FLOOR"); text != "" {
		var err error
		if floor, err = time.ParseDuration(text); err != nil {
			panic(err)
		}
	}
}

var (
	fleet   *kindfleet.Fleet
	watcher *watch
)

func TestE2E(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("needs the fleet of `make kind-up`: `make kind-test` runs it")
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(defaultTimeout)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "vdi-fleet in kind clusters", Label("e2e"))
}

var _ = BeforeSuite(func() {
	var err error
	fleet, err = kindfleet.Open(root)
	Expect(err).NotTo(HaveOccurred(), "the fleet of `make kind-up`")
	ctx, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	watcher, err = startWatch(ctx, fleet)
	Expect(err).NotTo(HaveOccurred())
	for _, member := range fleet.Members {
		Expect(ensureClass(ctx, member)).To(Succeed())
	}
	Expect(ensure(ctx, sampleTemplate())).To(Succeed())
	Expect(ensure(ctx, homeTemplate())).To(Succeed())
})

// The containers' resource usage, for readers of the times.
var _ = AfterSuite(func(ctx SpecContext) {
	out, err := exec.CommandContext(ctx, "docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}} {{.CPUPerc}}").Output()
	if err == nil {
		fmt.Fprintf(GinkgoWriter, "containers at the end:\n%s", out)
	}
})

// reportTime reports a time that the specs do not check.
func reportTime(what string, took time.Duration) {
	AddReportEntry(fmt.Sprintf("%s: %s", what, took.Round(10*time.Millisecond)))
	fmt.Printf("e2e: %s: %s\n", what, took.Round(10*time.Millisecond))
}
