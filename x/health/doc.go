// Package health finds the problems of queues, servers, schedulers and Redis, and their causes. The
// symptoms that a cause explains are its evidence, not causes of their own. Causes are sorted, most
// severe first. Each has a hint, links to details, and actions that help.
//
//	report, err := health.Check(ctx, inspector, health.Settings{})
//	for _, cause := range report.Causes {
//		fmt.Println(cause.Severity, cause.Title)
//	}
//
// A Monitor keeps what it needs of earlier checks, and so finds more than a single Check: growing
// backlogs, rising shares of failures, crashed servers, evicted keys. docs/HEALTH.md lists all
// kinds of causes.
//
//	report.go    the result: causes, evidence, links, actions
//	settings.go  the thresholds
//	input.go     the data that is checked; collect.go reads it
//	redis.go     parsing of INFO
//	monitor.go   checks, one after the other
//	memory.go    what a Monitor remembers of earlier checks
//	rules*.go    the rules: each finds one symptom
//	explain*.go  groups symptoms by their cause, and ranks them
//	words.go     numbers and times in texts
package health
