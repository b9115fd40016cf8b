package elastic

import (
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
)

// long labels the specs that take minutes: make test-elastic runs them, and make test-all does not.
const long = "long"

var _ = BeforeEach(func() {
	if slices.Contains(CurrentSpecReport().Labels(), long) && os.Getenv("SPECS") != "all" {
		Skip("it takes minutes: make test-elastic runs it, with SPECS=all")
	}
})
