package main

const (
	queueCritical = "critical"
	queueDefault  = "default"
	queueLow      = "low"
)

// weights has the server take from the queues at a ratio of six to three to one while all of them hold tasks.
var weights = map[string]int{queueCritical: 6, queueDefault: 3, queueLow: 1}

// reportID is an ID of the tour's own choice, under which it looks for the report's result.
const reportID = "report-sales"
