package identity

import (
	"math/rand/v2"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// readClocks reads the clocks of the system, and a random number.
func readClocks() reading {
	return reading{wall: time.Now(), boot: boottime.Now(), random: rand.Float64()}
}
