// Package checker checks the history of a chaos run. It uses no clock, no Redis and no processes:
// the same history always results in the same report.
//
// Its rules are sound: a violation cannot be explained by any order of events that the history
// permits. If the history is ambiguous, as after a kill, the checker assumes the interpretation in
// favor of the library, but only for that run of that task.
//
// Assumptions:
//
//   - A recorded run lies within the actual one: started is its first action, finished its last.
//     The library sends the outcome afterwards.
//   - A process does within [Rules.Slack] what it does immediately, unless a fault stops it.
//   - A running process extends its leases every [Rules.Extend]. So the last certain extension is
//     that much older than a stop, and the earliest expiry of a lease is [Rules.Lease] after that.
//   - A process that is frozen between a fetch and the handler starts a run whose lease has
//     expired. Its outcome is rejected, so such a run neither explains nor contradicts anything
//     about the task.
//   - Redis loses the end of its history or nothing. So the statistics of a queue match its tasks
//     even after a loss.
package checker
