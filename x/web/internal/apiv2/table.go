package apiv2

import (
	"encoding/json"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// Parameters of several routes.
var (
	filterParam = param{name: "filter", kind: "string", doc: "A filter for the tasks, in the filter language: `type:email:* error:\"timed out\" age>10m`."}
	queueParam  = param{name: "queue", kind: "string", list: true, doc: "Only these queues. May be repeated."}
	stateParam  = param{name: "state", kind: "string", list: true, enum: filter.States(), doc: "Only these states. May be repeated."}
	groupParam  = param{name: "group", kind: "string", doc: "Only the aggregating tasks of this group."}
	cursorParam = param{name: "cursor", kind: "string", doc: "The `next` field of the previous page."}
	limitParam  = param{name: "limit", kind: "integer", min: 1, max: 500, def: 50, doc: "The maximum number of items to return."}
	keyParam    = param{name: "key", kind: "string", doc: "The key of the partition. Empty or absent: the tasks without a partition key."}
	scanParam   = param{name: "max_scan", kind: "integer", min: 1, max: 100_000, def: 10_000, doc: "The maximum number of tasks to scan."}
	asParam     = param{name: "payload", kind: "string", enum: []string{asFits, asBase64, asNone}, def: asFits, doc: "The encoding of payloads and results: chosen by content, always base64, or omitted."}
)

func sizeParam(def, most int) param {
	return param{name: "payload_limit", kind: "integer", max: most, def: def, doc: "The maximum number of bytes of each payload and result to return."}
}

const taskPath = "/queues/{queue}/tasks/{id}"

// table lists the routes, in the order of the OpenAPI document.
func (a *api) table() []*route {
	listed := []param{filterParam, stateParam, groupParam, cursorParam, limitParam, scanParam, asParam, sizeParam(listedPayload, 64<<10)}
	everywhere := append([]param{queueParam}, listed...)
	counted := []param{filterParam, queueParam, stateParam, {
		name: "max_scan", kind: "integer", min: 1, max: 1_000_000, def: 20_000,
		doc: "The maximum number of tasks to scan. Small queues are scanned completely, large ones to the same depth.",
	}}
	failed := slices.Clone(counted)
	failed[2].enum = []string{asynq.TaskStateRetry.String(), asynq.TaskStateArchived.String()}
	shown := []param{asParam, sizeParam(shownPayload, maxPayload)}
	routes := []*route{
		{method: "GET", path: "/queues", id: "listQueues", tag: "Queues", doc: "Lists all queues, with their counts, rates and health.",
			params: []param{{name: "filter", kind: "string", doc: "A filter over the fields of the queues: `queue:mail:* pending>100 -paused:true`."}},
			out:    &QueueList{}, handle: (*call).listQueues, problems: []int{503}},
		{method: "GET", path: "/queues/{queue}", id: "getQueue", tag: "Queues", doc: "Returns the current state of a queue.",
			out: &Queue{}, handle: (*call).getQueue, problems: []int{404, 503}},
		{method: "PATCH", path: "/queues/{queue}", id: "patchQueue", tag: "Queues", doc: "Pauses or resumes a queue. The request is idempotent.",
			body: &QueuePatch{}, example: json.RawMessage(`{"paused":true}`), out: &Queue{}, handle: (*call).patchQueue, problems: []int{404, 422, 503}},
		{method: "DELETE", path: "/queues/{queue}", id: "deleteQueue", tag: "Queues", doc: "Deletes an empty queue or, with force, a queue and its tasks. It fails if a task is active.",
			params: []param{{name: "force", kind: "boolean", doc: "Also delete the tasks of the queue."}}, handle: (*call).deleteQueue, problems: []int{404, 409, 503}},
		{method: "GET", path: "/queues/{queue}/history", id: "queueHistory", tag: "Queues", doc: "Returns the number of finished attempts for each of the last days.",
			params: []param{{name: "days", kind: "integer", min: 1, max: 90, def: 7, doc: "The number of UTC days."}},
			out:    &Days{}, handle: (*call).queueHistory, problems: []int{404, 503}},
		{method: "GET", path: "/queues/{queue}/series", id: "queueSeries", tag: "Queues", doc: "Returns time series of a queue, recorded since this server started. They are empty for a new queue, and for queues beyond the first 1,000.",
			params: seriesParams(), out: &Series{}, handle: (*call).series, problems: []int{404, 503}},
		{method: "GET", path: "/series", id: "series", tag: "Queues", doc: "Returns time series of all queues combined, recorded since this server started. The latency is the maximum over all queues that are not paused.",
			params: seriesParams(), out: &Series{}, handle: (*call).series, problems: []int{404, 503}},
		{method: "GET", path: "/queues/{queue}/groups", id: "listGroups", tag: "Queues", doc: "Lists the groups of a queue, by name.",
			params: []param{limitParam, {name: "offset", kind: "integer", max: 1 << 30, def: 0, doc: "The number of groups to skip."}},
			out:    &GroupList{}, handle: (*call).listGroups, problems: []int{404, 503}},

		{method: "GET", path: "/queues/{queue}/partitions", id: "listPartitions", tag: "Queues", doc: "Lists the partitions of a queue that have held or active tasks.",
			params: []param{
				{name: "sort", kind: "string", enum: []string{"held", "active", "latency", "key"}, def: "held", doc: "The order: most tasks or longest latency first, or by key."},
				{name: "prefix", kind: "string", doc: "Only partitions whose keys begin with this text."},
				limitParam, {name: "offset", kind: "integer", max: 1 << 30, def: 0, doc: "The number of partitions to skip."},
			},
			out: &PartitionList{}, handle: (*call).listPartitions, problems: []int{404, 503}},
		{method: "GET", path: "/queues/{queue}/partition", id: "getPartition", tag: "Queues", doc: "Returns the state of a partition, whether it has tasks or not.",
			params: []param{keyParam}, out: &Partition{}, handle: (*call).getPartition, problems: []int{404, 422, 503}},
		{method: "PUT", path: "/queues/{queue}/partition", id: "setPartition", tag: "Queues", doc: "Replaces the settings of a partition. They take effect within a second. Whether it is paused does not change.",
			params: []param{keyParam}, body: &PartitionSettings{}, example: json.RawMessage(`{"concurrency":3,"rate":{"events":100,"per_seconds":60,"burst":10},"weight":2}`),
			out: &Partition{}, handle: (*call).setPartition, problems: []int{404, 422, 503}},
		{method: "POST", path: "/queues/{queue}/partition/pause", id: "pausePartition", tag: "Queues", doc: "Stops servers from starting tasks of a partition. Running tasks continue.",
			params: []param{keyParam}, out: &Partition{}, handle: (*call).pausePartition, problems: []int{404, 422, 503}},
		{method: "POST", path: "/queues/{queue}/partition/resume", id: "resumePartition", tag: "Queues", doc: "Resumes a partition.",
			params: []param{keyParam}, out: &Partition{}, handle: (*call).resumePartition, problems: []int{404, 422, 503}},
		{method: "POST", path: "/queues/{queue}/partition/cancel", id: "cancelPartition", tag: "Queues", doc: "Requests the cancellation of the active tasks of a partition.",
			params: []param{keyParam}, out: &PartitionChange{}, handle: (*call).cancelPartition, problems: []int{404, 422, 503}},
		{method: "DELETE", path: "/queues/{queue}/partition/tasks", id: "deletePartitionTasks", tag: "Queues", doc: "Deletes the tasks with a partition key that wait, and cancels the active ones, which are then deleted. Archived and completed tasks remain. It reads all waiting tasks of the queue.",
			params: []param{keyParam}, out: &PartitionChange{}, handle: (*call).deletePartitionTasks, problems: []int{404, 422, 503}},

		{method: "GET", path: "/tasks", id: "searchTasks", tag: "Tasks", doc: "Searches all queues and states. Each call scans at most max_scan tasks. Follow next until it is null.",
			params: everywhere, out: &TaskList{}, handle: (*call).listTasks, problems: []int{503}},
		{method: "POST", path: "/tasks", id: "enqueueTask", tag: "Tasks", doc: "Enqueues a task.",
			body: &NewTask{}, example: json.RawMessage(`{"type":"email:welcome","queue":"mail","payload":{"encoding":"json","value":{"user_id":42}},"max_retry":3,"process_in_seconds":60}`),
			status: 201, out: &Task{}, handle: (*call).enqueue, problems: []int{409, 422, 503}},
		{method: "POST", path: "/tasks:batch", id: "enqueueTasks", tag: "Tasks", doc: "Enqueues up to 1,000 tasks. The batch is not a transaction: each task has its own result.",
			body: &Batch{}, example: json.RawMessage(`{"tasks":[{"type":"email:welcome","payload":{"value":{"user_id":1}}},{"type":"email:welcome","payload":{"value":{"user_id":2}}}]}`),
			out: &BatchResult{}, handle: (*call).enqueueBatch, problems: []int{422}},
		{method: "GET", path: "/queues/{queue}/tasks", id: "listTasks", tag: "Tasks", doc: "Lists the tasks of a queue, state by state: scheduled and retry tasks by the time of their next attempt, aggregating tasks by the time of their enqueueing, other tasks newest first.",
			params: listed, out: &TaskList{}, handle: (*call).listTasks, problems: []int{404, 503}},
		{method: "GET", path: taskPath, id: "getTask", tag: "Tasks", doc: "Returns all details of a task.",
			params: shown, out: &Task{}, handle: (*call).getTask, problems: []int{404, 503}},
		{method: "PATCH", path: taskPath, id: "patchTask", tag: "Tasks", doc: "Changes the payload of a scheduled task, or the time at which a task is processed. With If-Match, the request fails if the task has changed. The payload is compared and replaced atomically; everything else is compared just before the change.",
			params: shown, body: &TaskPatch{}, example: json.RawMessage(`{"payload":{"value":{"user_id":43}},"next_process_at":"2030-01-01T00:00:00Z"}`),
			out: &Task{}, handle: (*call).patchTask, problems: []int{404, 409, 412, 422, 503}},
		{method: "DELETE", path: taskPath, id: "deleteTask", tag: "Tasks", doc: "Deletes a task that is not active.",
			handle: change(access.TaskDelete, (*asynq.Inspector).DeleteTask), problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/run", id: "runTask", tag: "Tasks", doc: "Moves a waiting, archived or completed task to pending.",
			out: &Task{}, handle: change(access.TaskRun, (*asynq.Inspector).RunTask), problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/archive", id: "archiveTask", tag: "Tasks", doc: "Archives a pending, scheduled, retry or aggregating task.",
			params: []param{{name: "discard_oldest", kind: "boolean", doc: "Delete the oldest archived task if the archive is full. If false, the request then fails with archive-full."}},
			out:    &Task{}, handle: (*call).archiveTask, problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/cancel", id: "cancelTask", tag: "Tasks", doc: "Requests the cancellation of an active task. The response does not wait for the task to end.",
			body: &CancelRequest{}, opt: true, example: json.RawMessage(`{"then":"archive"}`), status: 202,
			out: &Task{}, handle: (*call).cancelTask, problems: []int{404, 409, 412, 422, 503}},
		{method: "POST", path: taskPath + "/clone", id: "cloneTask", tag: "Tasks", doc: "Enqueues a new task with the type, payload, headers and options of this task. Options in the body take precedence.",
			body: &Options{}, opt: true, example: json.RawMessage(`{"queue":"low"}`), status: 201,
			out: &Task{}, handle: (*call).cloneTask, problems: []int{404, 409, 422, 503}},
		{method: "GET", path: "/errors", id: "listErrors", tag: "Tasks", doc: "Groups retry and archived tasks by kind of error.",
			params: failed, out: &Grouped[ErrorGroup]{}, handle: (*call).listErrors, problems: []int{503}},
		{method: "GET", path: "/types", id: "listTypes", tag: "Tasks", doc: "Counts tasks by type and state.",
			params: counted, out: &Grouped[TypeGroup]{}, handle: (*call).listTypes, problems: []int{503}},

		{method: "GET", path: "/stats/types", id: "typeStats", tag: "Statistics", doc: "Counts the attempts of each task type in each queue, those with the longest total duration first. Servers record them, so they include deleted tasks.",
			params: statsParams(), out: &TypeStatsList{}, handle: (*call).typeStats, problems: []int{404, 503}},
		{method: "GET", path: "/stats/history", id: "statsHistory", tag: "Statistics", doc: "Returns the attempts and sizes of the selected queues by minute, or by hour if from is more than 48 hours ago. There are no points for times without a running server or, with a type, without attempts.",
			params: append(statsParams(), param{name: "type", kind: "string", doc: "Only the attempts of this task type. The points then have no sizes."}),
			out:    &StatsHistory{}, handle: (*call).statsHistory, problems: []int{404, 503}},
		{method: "GET", path: "/stats/errors", id: "errorStats", tag: "Statistics", doc: "Counts failed attempts by kind of error, queue and task type, most first.",
			params: statsParams(), out: &ErrorStatsList{}, handle: (*call).errorStats, problems: []int{404, 503}},

		{method: "GET", path: "/flows", id: "listFlows", tag: "Flows", doc: "Lists flows, newest first.",
			params: []param{limitParam, {name: "offset", kind: "integer", max: 1 << 30, def: 0, doc: "The number of flows to skip."}},
			out:    &FlowList{}, handle: (*call).listFlows, problems: []int{503}},
		{method: "GET", path: "/flows/{id}", id: "getFlow", tag: "Flows", doc: "Returns the state of a flow and of its nodes.",
			out: &Flow{}, handle: (*call).getFlow, problems: []int{404, 503}},
		{method: "POST", path: "/flows/{id}/cancel", id: "cancelFlow", tag: "Flows", doc: "Cancels a flow: no further node starts, its waiting tasks are deleted, and its active ones are canceled.",
			out: &Flow{}, handle: (*call).cancelFlow, problems: []int{404, 409, 503}},
		{method: "POST", path: "/flows/{id}/retry", id: "retryFlow", tag: "Flows", doc: "Runs the archived tasks of a flow again, and lets nodes wait again that were canceled because of them.",
			out: &FlowRetry{}, handle: (*call).retryFlow, problems: []int{404, 409, 503}},
		{method: "POST", path: "/flows/{id}/nodes/{node}/skip", id: "skipFlowNode", tag: "Flows", doc: "Makes a node that waits, has failed, was canceled or omitted count as succeeded.",
			out: &Flow{}, handle: (*call).skipFlowNode, problems: []int{404, 409, 503}},

		{method: "GET", path: "/operations", id: "listOperations", tag: "Operations", doc: "Lists operations, newest first. Finished operations are removed after an hour.",
			params: []param{{name: "status", kind: "string", list: true, enum: []string{"waiting", "running", "done", "failed", "canceled"}, doc: "Only operations with these statuses."}},
			out:    &OperationList{}, handle: (*call).listOperations},
		{method: "POST", path: "/operations", id: "startOperation", tag: "Operations", doc: "Changes many tasks in the background, or counts them with dry_run.",
			body: &OperationRequest{}, example: json.RawMessage(`{"kind":"run","queue":"mail","state":"archived","filter":"error:\"timed out\"","dry_run":true}`),
			status: 202, out: &Operation{}, also: map[int]any{200: &OperationCount{}}, handle: (*call).startOperation, problems: []int{404, 409, 422, 503}},
		{method: "GET", path: "/operations/{id}", id: "getOperation", tag: "Operations", doc: "Returns the progress of an operation.",
			params: []param{{name: "wait", kind: "integer", max: 30, def: 0, doc: "Wait up to this many seconds for the operation to finish."}},
			out:    &Operation{}, handle: (*call).getOperation, problems: []int{404}},
		{method: "DELETE", path: "/operations/{id}", id: "cancelOperation", tag: "Operations", doc: "Cancels an operation. Changes that it has made are kept.",
			status: 202, out: &Operation{}, handle: (*call).cancelOperation, problems: []int{404}},

		{method: "GET", path: "/servers", id: "listServers", tag: "Servers", doc: "Lists the running servers, oldest first.",
			out: &ServerList{}, handle: (*call).listServers, problems: []int{503}},
		{method: "PATCH", path: "/servers/{id}", id: "patchServer", tag: "Servers", doc: "Changes how many tasks a server runs at the same time, until it ends. Running tasks continue.",
			body: &ServerPatch{}, example: json.RawMessage(`{"concurrency":20}`), out: &Server{}, handle: (*call).patchServer, problems: []int{404, 409, 422, 503}},
		{method: "POST", path: "/servers/{id}/quiet", id: "quietServer", tag: "Servers", doc: "Makes a server stop fetching tasks. Running tasks continue. It must be restarted to fetch again.",
			out: &Server{}, handle: (*call).quietServer, problems: []int{404, 409, 503}},
		{method: "POST", path: "/servers/{id}/stop", id: "stopServer", tag: "Servers", doc: "Shuts a server down. The response does not wait for its running tasks.",
			status: 202, out: &Server{}, handle: (*call).stopServer, problems: []int{404, 409, 503}},
		{method: "POST", path: "/servers/{id}/queues/{queue}/pause", id: "pauseServerQueue", tag: "Servers", doc: "Stops one server from fetching tasks of a queue, until it ends or the queue is resumed on it.",
			out: &Server{}, handle: serverQueue(access.ServerPauseQueue, (*asynq.Inspector).PauseServerQueue), problems: []int{404, 409, 503}},
		{method: "POST", path: "/servers/{id}/queues/{queue}/resume", id: "resumeServerQueue", tag: "Servers", doc: "Lets one server fetch tasks of a queue again.",
			out: &Server{}, handle: serverQueue(access.ServerResumeQueue, (*asynq.Inspector).ResumeServerQueue), problems: []int{404, 409, 503}},
		{method: "GET", path: "/workers", id: "listWorkers", tag: "Servers", doc: "Lists the tasks that servers are processing.",
			params: []param{{name: "queue", kind: "string", doc: "Only tasks of this queue."}, {name: "server", kind: "string", doc: "Only tasks of the server with this ID."}},
			out:    &WorkerList{}, handle: (*call).listWorkers, problems: []int{503}},
		{method: "GET", path: "/schedules", id: "listSchedules", tag: "Schedules", doc: "Lists the entries of all running schedulers.",
			out: &ScheduleList{}, handle: (*call).listSchedules, problems: []int{503}},
		{method: "GET", path: "/schedules/{id}/history", id: "scheduleHistory", tag: "Schedules", doc: "Lists the runs of an entry, newest first. The last 1,000 runs of each entry are kept. The list of an unknown entry is empty.",
			params: []param{{name: "page", kind: "integer", min: 1, max: 1000, def: 1, doc: "The page number. The first page is 1."}, limitParam},
			out:    &ScheduleEvents{}, handle: (*call).scheduleHistory, problems: []int{503}},
		{method: "POST", path: "/schedules/{id}/run", id: "runSchedule", tag: "Schedules", doc: "Enqueues the task of an entry now. The schedule of the entry does not change.",
			status: 201, out: &Task{}, handle: (*call).runSchedule, problems: []int{404, 409, 422, 503}},
		{method: "POST", path: "/schedules/{id}/pause", id: "pauseSchedule", tag: "Schedules", doc: "Pauses an entry: its runs are skipped until it is resumed, and not enqueued later.",
			handle: pauseSchedule(access.SchedulePause, (*asynq.Inspector).PauseSchedulerEntry), problems: []int{404, 503}},
		{method: "POST", path: "/schedules/{id}/resume", id: "resumeSchedule", tag: "Schedules", doc: "Resumes an entry.",
			handle: pauseSchedule(access.ScheduleResume, (*asynq.Inspector).ResumeSchedulerEntry), problems: []int{404, 503}},

		{method: "GET", path: "/redis", id: "getRedis", tag: "System", doc: "Returns the state of Redis, from INFO.",
			out: &Redis{}, handle: (*call).getRedis, problems: []int{503}},
		{method: "GET", path: "/health", id: "getHealth", tag: "System", doc: "Returns the health of the queues, servers, schedulers and Redis as a list of findings. The status code is always 200.",
			out: &Health{}, handle: (*call).getHealth},
		{method: "POST", path: "/health/mutes", id: "muteCause", tag: "System", doc: "Mutes or acknowledges a cause on all surfaces. It replaces an earlier mute of the cause.",
			body: &MuteInput{}, example: json.RawMessage(`{"id":"paused:mail","until":null,"note":"migration"}`), handle: (*call).muteCause, problems: []int{422, 503}},
		{method: "DELETE", path: "/health/mutes/{id}", id: "unmuteCause", tag: "System", doc: "Unmutes a cause.",
			handle: (*call).unmuteCause, problems: []int{404, 503}},
		{method: "GET", path: "/audit", id: "listAudit", tag: "System", doc: "Lists the last changes, logins and log-outs, newest first. It requires the role admin.",
			params: auditParams(), out: &AuditList{}, handle: (*call).listAudit},
		{method: "GET", path: "/whoami", id: "whoami", tag: "System", doc: "Returns the user of the request and the user's permissions.",
			out: &Whoami{}, handle: (*call).whoami},
		{method: "GET", path: "/openapi.json", id: "openapi", tag: "System", doc: "Returns the OpenAPI document of this API.",
			out: map[string]any{}, handle: (*call).document},
		{method: "GET", path: "/openapi.yaml", id: "openapiYAML", tag: "System", doc: "Returns the OpenAPI document as YAML. JSON is a subset of YAML, so the content is the same.",
			out: map[string]any{}, handle: (*call).documentYAML},
		{method: "GET", path: "/", id: "index", tag: "System", doc: "Returns the version of the API and the URL of the OpenAPI document.", out: &Index{}, handle: (*call).index},
	}
	return routes
}

func seriesParams() []param {
	return []param{
		{name: "metric", kind: "string", list: true, enum: poll.MetricNames(), doc: "Only these metrics. The default is all metrics."},
		{name: "span", kind: "integer", min: 10, max: 3 * 24 * 3600, def: 600, doc: "The length of the series in seconds, up to now."},
	}
}

func (c *call) document() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	return json.RawMessage(c.api.openapi), nil
}

func (c *call) documentYAML() (any, error) {
	c.w.Header().Set("Content-Type", "application/yaml")
	return c.document()
}
