//go:build race

package dash

// The race detector makes everything ten times slower.
const randomKeys = 600
