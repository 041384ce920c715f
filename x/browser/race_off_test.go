//go:build !race

package browser_test

import "time"

// many is how many tasks a large queue has.
const many = 1_000_000

// moment is how long a page of a large payload may take.
const moment = time.Second
