// Package demo is a shop at work: several servers, schedulers and a producer, with all that can befall tasks, for a first look
// at the tools. It is bounded: its queues do not grow however long it runs.
package demo
