//go:build race

package browser_test

import "time"

// many is how many tasks a large queue has: the race detector makes everything slow.
const many = 200_000

// moment is how long a page of a large payload may take: the race detector, and tests beside it, cost it most of that.
const moment = 5 * time.Second
