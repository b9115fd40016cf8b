package identity

import (
	"math/rand/v2"
	"time"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
)

// readClocks reads the clocks of the system, and a random number.
func readClocks() reading {
	return reading{wall: time.Now(), boot: fence.SinceBoot(), random: rand.Float64()}
}
