//go:build race

package browser_test

// many is the number of tasks of a large queue: the race detector is slow.
const many = 200_000
