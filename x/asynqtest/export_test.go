package asynqtest

import "time"

// StallAfter sets how long a Drain waits without progress.
func StallAfter(d time.Duration) DrainOption {
	return func(drain *drain) { drain.stall = d }
}
