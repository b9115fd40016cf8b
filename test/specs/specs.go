package specs

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

const smoke = "smoke"

// Smoke labels the specs of a short run: each covers the main purpose of the suite, and takes
// seconds.
var Smoke = ginkgo.Label(smoke)

// Run runs the suite's specs.
func Run(t *testing.T, description string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	if testing.Short() {
		suite.LabelFilter = smoke
	}
	ginkgo.RunSpecs(t, description, suite, reporter)
}
