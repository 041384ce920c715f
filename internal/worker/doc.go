// Package worker runs tasks: it shares out the slots, chooses queues, fetches and settles in the turns of a pump per lane, and leads
// each attempt through its life.
//
// The pieces that need a goroutine of their own over time (turns, waits, lease extension, the watch over stuck handlers) are tick
// functions for package runner.
package worker
