//go:build race

package browser_test

// many is how many tasks a large queue has: the race detector makes everything slow.
const many = 200_000
