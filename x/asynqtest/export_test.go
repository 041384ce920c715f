package asynqtest

import "time"

// StallAfter sets how long nothing may happen in a Drain.
func StallAfter(d time.Duration) DrainOption {
	return func(drain *drain) { drain.stall = d }
}
