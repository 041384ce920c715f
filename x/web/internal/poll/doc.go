// Package poll looks at one Redis for all pages: one poller, however many tabs are open. It keeps the latest snapshot, a bounded
// history of numbers, and tells its subscribers of each new snapshot.
//
//	poller.go   when to look: pacing, subscribers, starting and stopping
//	look.go     one look: its parts side by side, each of which may fail alone
//	source.go   what a look asks Redis
//	info.go     what the text of INFO says
//	rate.go     how fast queues move, from two looks
//	series.go   numbers over time in fixed memory
//	history.go  which numbers are kept, and how they are asked for
//	health.go   what is wrong, in plain sentences; thresholds.go says from when on
//	events.go   the event stream that tells tabs of new snapshots
//	details.go  the Redis page, asked on demand
package poll
