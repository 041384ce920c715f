//go:build race

package browser_test

import "time"

// many is the number of tasks of a large queue: the race detector is slow.
const many = 200_000

// moment is the maximum time of a page with a large payload. The race detector and concurrent tests
// take most of it; a page that takes quadratic time would still take minutes.
const moment = 20 * time.Second
