//go:build !race

package browser_test

// many is how many tasks a large queue has.
const many = 1_000_000
