//go:build !race

package browser_test

// many is the number of tasks of a large queue.
const many = 1_000_000
