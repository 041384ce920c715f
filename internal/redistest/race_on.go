//go:build race

package redistest

// Race reports whether the race detector is enabled.
const Race = true
