package main

const (
	queueCritical = "critical"
	queueDefault  = "default"
	queueLow      = "low"
)

// weights makes the server fetch from the queues at a ratio of 6:3:1 while all of them have tasks.
var weights = map[string]int{queueCritical: 6, queueDefault: 3, queueLow: 1}

// reportID is the task ID of the report, by which its result is read.
const reportID = "report-sales"
