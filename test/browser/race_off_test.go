//go:build !race

package browser_test

import "time"

// many is the number of tasks of a large queue.
const many = 1_000_000

// moment is the maximum time of a page with a large payload.
const moment = time.Second
