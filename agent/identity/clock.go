package identity

import (
	"math/rand/v2"
	"time"
)

// readClocks asks the system, and chance.
func readClocks() (reading, error) {
	boot, err := sinceBoot()
	return reading{wall: time.Now(), boot: boot, random: rand.Float64()}, err
}
