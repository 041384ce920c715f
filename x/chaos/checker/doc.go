// Package checker judges what was seen in a run of the chaos harness. It has no clock, no Redis and no processes: a history goes in, a
// report comes out, and the same history always gets the same report.
//
// Its rules are sound: what it calls a violation, no order of things could have made that the history allows. Where the history leaves
// something open, as after a kill, it takes the reading that is kindest to the library, but for that run of that task only.
//
// What it builds on:
//
//   - A recorded run lies within the true one: started is its first act, finished its last. The library sends the outcome after that.
//   - What a process does at once, it does within [Rules.Slack], unless a fault silences it.
//   - A process that is not silenced extends its leases every [Rules.Extend]. So the last extension that is sure is that much older than
//     a silence, and the earliest end of a lease is [Rules.Lease] after that.
//   - A process that is frozen between a fetch and the handler starts a run that everybody else has long ended. Its outcome is refused, so
//     such a run explains nothing about the task, and nothing about the task is against it.
//   - Redis loses the end of its history or nothing of it. So a queue's statistics fit its tasks even after a loss.
package checker
