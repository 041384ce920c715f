package poll

import "time"

// The thresholds of all verdicts.
const (
	// Age of the oldest pending task: notice, warning, trouble.
	waitNotice  = time.Minute
	waitWarning = 5 * time.Minute
	waitTrouble = 30 * time.Minute

	// Scheduled and retry tasks have been due for this long and no server forwards them. Servers
	// need up to a few seconds.
	overdueWarning = 30 * time.Second
	overdueTrouble = 5 * time.Minute

	// The lease of an active task expired this long ago and no server recovers the task. Servers
	// need up to about ten seconds.
	orphanWarning = 15 * time.Second
	orphanTrouble = 2 * time.Minute

	// trend is the time span over which growth and failures are measured.
	trend = 5 * time.Minute

	// leastTrend is the minimum time span of data for verdicts on failures and archiving,
	// growthTrend for those on backlogs.
	leastTrend  = time.Minute
	growthTrend = 4 * time.Minute

	// Minimum growth of the backlog within the trend: absolute and relative.
	growthTasks = 100
	growthPart  = 0.1

	// A shrinking backlog is reported if processing it takes longer.
	drainNotice = time.Hour

	// Share of failed attempts within the trend, and the minimum number of attempts.
	failingWarning  = 0.2
	failingTrouble  = 0.9
	failingAttempts = 10

	// Number of tasks archived within the trend.
	archivingTasks = 100

	// Share of the limit of the archive from which on there is a notice. In a full archive, each
	// further task deletes the oldest.
	archiveNotice = 0.9

	// All workers of a queue with pending tasks have been busy for this long.
	saturatedNotice = 3 * time.Minute

	// A server that processed a task for this long and disappeared without stopping has crashed.
	// The crash is reported for crashReported.
	crashHeld     = 8 * time.Second
	crashReported = 10 * time.Minute

	// A handler has run for this long past its deadline.
	overrunWarning = time.Minute

	// A scheduler entry has been due for this long. Schedulers report their entries every ten
	// seconds.
	missedWarning = time.Minute

	// How long a missing scheduler is reported.
	noSchedulerReported = 24 * time.Hour

	// Used share of maxmemory.
	memoryWarning = 0.8
	memoryTrouble = 0.95

	// Fragmentation in percent, and the minimum memory for which it matters.
	fragmentationNotice = 50
	fragmentationLeast  = 100 << 20
)
