// Package demo runs a shop for demonstrations of the tools: several servers, schedulers and a
// producer, with tasks of all kinds and outcomes. The size of its queues is bounded however long it
// runs.
package demo
