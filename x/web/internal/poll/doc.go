// Package poll polls one Redis on behalf of all pages, with one poller for any number of tabs. It
// keeps the latest snapshot and a bounded history of metrics, and notifies its subscribers of new
// snapshots.
//
//	poller.go         the polling loop: intervals, subscribers, start and stop
//	snapshot.go       the data of one poll, with its report on health
//	snapshotter.go    one poll: its parts run concurrently, and each may fail on its own
//	source.go         the calls to Redis
//	info.go           parsing of INFO
//	rate.go           rates of queues, from consecutive polls
//	series.go         time series in fixed memory
//	history.go        the recorded metrics, and queries
//	health.go         the checks of the health of the system (x/health)
//	events.go         the event stream that notifies tabs of new snapshots
//	details.go        the data of the Redis page, read on demand; details_clients.go has its clients
package poll
