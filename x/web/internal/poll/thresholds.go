package poll

import "time"

// From when on something is a verdict. This is the one place that says so.
const (
	// The oldest pending task waits: so long is worth knowing, a warning, a trouble.
	waitNotice  = time.Minute
	waitWarning = 5 * time.Minute
	waitTrouble = 30 * time.Minute

	// Scheduled tasks and retries are due for so long: nobody forwards them. Servers need up to a few seconds.
	overdueWarning = 30 * time.Second
	overdueTrouble = 5 * time.Minute

	// The lease of an active task ended so long ago: nobody takes it over. Servers need up to about ten seconds.
	orphanWarning = 15 * time.Second
	orphanTrouble = 2 * time.Minute

	// trend is over how long growth and failures are looked at.
	trend = 5 * time.Minute

	// leastTrend is how much of that must have been seen for failures and archiving to be judged, and growthTrend for a backlog.
	leastTrend  = time.Minute
	growthTrend = 4 * time.Minute

	// The backlog grows: by so many tasks and by such a part of it within the trend.
	growthTasks = 100
	growthPart  = 0.1

	// A backlog that becomes smaller is worth knowing of if that takes longer.
	drainNotice = time.Hour

	// Attempts fail: such a part of those within the trend, if there were so many.
	failingWarning  = 0.2
	failingTrouble  = 0.9
	failingAttempts = 10

	// Tasks were archived: so many within the trend.
	archivingTasks = 100

	// The archive keeps so many tasks and drops the oldest for each that comes in. Near that it is worth knowing.
	archiveLimit  = 10_000
	archiveNotice = 9_000

	// All workers that serve a queue with waiting tasks have been busy for so long.
	saturatedNotice = 3 * time.Minute

	// A server that held a task for so long, and then was not listed any more without having been stopped, has crashed; that is told
	// for so long.
	crashHeld = 8 * time.Second
	crashTold = 10 * time.Minute

	// A handler has gone on for so long beyond its deadline.
	overrunWarning = time.Minute

	// An entry of a scheduler was to be enqueued so long ago. Schedulers tell of their entries every ten seconds.
	missedWarning = time.Minute

	// Where there were entries of schedulers and are none, that is told for so long.
	noSchedulerTold = 24 * time.Hour

	// Redis's memory, as a part of its limit.
	memoryWarning = 0.8
	memoryTrouble = 0.95

	// Redis has so much more memory of the system than it uses, in percent; below the size that does not matter.
	fragmentationNotice = 50
	fragmentationLeast  = 100 << 20
)
