//go:build race

package redistest

// Race tells whether the race detector is at work. It makes a miniredis about ten times slower, and finds nothing in the amounts of a
// test: tests that take long for their amounts do less then. The README's command runs them in full.
const Race = true
