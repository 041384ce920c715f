//go:build !race

package dash

// randomKeys is how many keys are pressed on each Redis.
const randomKeys = 4000
