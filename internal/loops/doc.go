// Package loops implements the background work of a server besides its workers. Each type is one
// loop, with a Tick method for package runner; none of them owns a goroutine or a timer.
//
//	Forwarder    moves due tasks from scheduled and retry to pending
//	Recoverer    retries or archives tasks whose lease has expired
//	Janitor      deletes expired completed tasks and trims the archive
//	Aggregator   replaces the tasks of a due group by one task
//	Heartbeater  publishes the server, or each caller of a Receiver, and the tasks that it runs
//	Subscriber   receives cancellations
//	Health       reports to the user whether Redis is reachable
package loops
