//go:build !unix

package main

import "time"

// processCPU returns 0: it is not measured on this system.
func processCPU() time.Duration { return 0 }
