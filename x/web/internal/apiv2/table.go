package apiv2

import (
	"encoding/json"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// Parameters that several routes have.
var (
	filterParam = param{name: "filter", kind: "string", doc: "Which tasks are meant, in the filter language: `type:email:* error:\"timed out\" age>10m`."}
	queueParam  = param{name: "queue", kind: "string", list: true, doc: "Only these queues; it may be given several times."}
	stateParam  = param{name: "state", kind: "string", list: true, enum: filter.States(), doc: "Only these states."}
	groupParam  = param{name: "group", kind: "string", doc: "Only the aggregating tasks of this group."}
	cursorParam = param{name: "cursor", kind: "string", doc: "`next` of the part before."}
	limitParam  = param{name: "limit", kind: "integer", min: 1, max: 500, def: 50, doc: "How many items to return at most."}
	scanParam   = param{name: "max_scan", kind: "integer", min: 1, max: 100_000, def: 10_000, doc: "How many tasks to look at at most."}
	asParam     = param{name: "payload", kind: "string", enum: []string{asFits, asBase64, asNone}, def: asFits, doc: "How to show payloads and results: as fits them, always in base64, or not at all."}
)

func sizeParam(def, most int) param {
	return param{name: "payload_limit", kind: "integer", max: most, def: def, doc: "How many bytes of each payload and result to return."}
}

const taskPath = "/queues/{queue}/tasks/{id}"

// table lists the routes. The OpenAPI document has them in this order.
func (a *api) table() []*route {
	listed := []param{filterParam, stateParam, groupParam, cursorParam, limitParam, scanParam, asParam, sizeParam(listedPayload, 64<<10)}
	everywhere := append([]param{queueParam}, listed...)
	counted := []param{filterParam, queueParam, stateParam, {
		name: "max_scan", kind: "integer", min: 1, max: 1_000_000, def: 20_000,
		doc: "How many tasks to look at at most: small queues are looked at whole, and large ones to the same depth.",
	}}
	failed := slices.Clone(counted)
	failed[2].enum = []string{asynq.TaskStateRetry.String(), asynq.TaskStateArchived.String()}
	shown := []param{asParam, sizeParam(shownPayload, maxPayload)}
	routes := []*route{
		{method: "GET", path: "/queues", id: "listQueues", tag: "Queues", doc: "Lists all queues, with their counts, rates and health.",
			params: []param{{name: "filter", kind: "string", doc: "A filter over the fields of the queues: `queue:mail:* pending>100 -paused:true`."}},
			out:    &QueueList{}, handle: (*call).listQueues, problems: []int{503}},
		{method: "GET", path: "/queues/{queue}", id: "getQueue", tag: "Queues", doc: "Tells the state of a queue, as it is now.",
			out: &Queue{}, handle: (*call).getQueue, problems: []int{404, 503}},
		{method: "PATCH", path: "/queues/{queue}", id: "patchQueue", tag: "Queues", doc: "Pauses a queue, or lets it go on. It may be repeated.",
			body: &QueuePatch{}, example: json.RawMessage(`{"paused":true}`), out: &Queue{}, handle: (*call).patchQueue, problems: []int{404, 422, 503}},
		{method: "DELETE", path: "/queues/{queue}", id: "deleteQueue", tag: "Queues", doc: "Deletes a queue that is empty, or any with force, unless one of its tasks is active.",
			params: []param{{name: "force", kind: "boolean", doc: "Delete its tasks, too."}}, handle: (*call).deleteQueue, problems: []int{404, 409, 503}},
		{method: "GET", path: "/queues/{queue}/history", id: "queueHistory", tag: "Queues", doc: "Tells how many attempts ended on each of the last days.",
			params: []param{{name: "days", kind: "integer", min: 1, max: 90, def: 7, doc: "How many UTC days."}},
			out:    &Days{}, handle: (*call).queueHistory, problems: []int{404, 503}},
		{method: "GET", path: "/queues/{queue}/series", id: "queueSeries", tag: "Queues", doc: "Tells how numbers of a queue have changed since this server started. They are empty for a queue that is new, and for those beyond the first 1,000.",
			params: seriesParams(), out: &Series{}, handle: (*call).series, problems: []int{404, 503}},
		{method: "GET", path: "/series", id: "series", tag: "Queues", doc: "Tells how the numbers of all queues together have changed since this server started. The latency is the longest of queues that are not paused.",
			params: seriesParams(), out: &Series{}, handle: (*call).series, problems: []int{404, 503}},
		{method: "GET", path: "/queues/{queue}/groups", id: "listGroups", tag: "Queues", doc: "Lists the groups of a queue, by name.",
			params: []param{limitParam, {name: "offset", kind: "integer", max: 1 << 30, def: 0, doc: "How many to pass over."}},
			out:    &GroupList{}, handle: (*call).listGroups, problems: []int{404, 503}},

		{method: "GET", path: "/tasks", id: "searchTasks", tag: "Tasks", doc: "Searches through all queues and states. Each call looks at no more than max_scan tasks; follow next until it is null.",
			params: everywhere, out: &TaskList{}, handle: (*call).listTasks, problems: []int{503}},
		{method: "POST", path: "/tasks", id: "enqueueTask", tag: "Tasks", doc: "Enqueues a task.",
			body: &NewTask{}, example: json.RawMessage(`{"type":"email:welcome","queue":"mail","payload":{"encoding":"json","value":{"user_id":42}},"max_retry":3,"process_in_seconds":60}`),
			status: 201, out: &Task{}, handle: (*call).enqueue, problems: []int{409, 422, 503}},
		{method: "POST", path: "/tasks:batch", id: "enqueueTasks", tag: "Tasks", doc: "Enqueues up to 1,000 tasks. It is no transaction: each has its own result.",
			body: &Batch{}, example: json.RawMessage(`{"tasks":[{"type":"email:welcome","payload":{"value":{"user_id":1}}},{"type":"email:welcome","payload":{"value":{"user_id":2}}}]}`),
			out: &BatchResult{}, handle: (*call).enqueueBatch, problems: []int{422}},
		{method: "GET", path: "/queues/{queue}/tasks", id: "listTasks", tag: "Tasks", doc: "Lists the tasks of a queue, state by state: scheduled and retry by their time, aggregating by when they came, others the latest first.",
			params: listed, out: &TaskList{}, handle: (*call).listTasks, problems: []int{404, 503}},
		{method: "GET", path: taskPath, id: "getTask", tag: "Tasks", doc: "Tells all of a task.",
			params: shown, out: &Task{}, handle: (*call).getTask, problems: []int{404, 503}},
		{method: "PATCH", path: taskPath, id: "patchTask", tag: "Tasks", doc: "Changes the payload of a scheduled task, or when a task is processed. With If-Match it is refused if the task has changed since. The payload is compared in the same moment as it is replaced, all else right before.",
			params: shown, body: &TaskPatch{}, example: json.RawMessage(`{"payload":{"value":{"user_id":43}},"next_process_at":"2030-01-01T00:00:00Z"}`),
			out: &Task{}, handle: (*call).patchTask, problems: []int{404, 409, 412, 422, 503}},
		{method: "DELETE", path: taskPath, id: "deleteTask", tag: "Tasks", doc: "Deletes a task that is not active.",
			handle: change(access.TaskDelete, (*asynq.Inspector).DeleteTask), problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/run", id: "runTask", tag: "Tasks", doc: "Has a task run now that waits, is archived or completed.",
			out: &Task{}, handle: change(access.TaskRun, (*asynq.Inspector).RunTask), problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/archive", id: "archiveTask", tag: "Tasks", doc: "Moves a task to the archive that is pending or waits.",
			out: &Task{}, handle: change(access.TaskArchive, (*asynq.Inspector).ArchiveTask), problems: []int{404, 409, 412, 503}},
		{method: "POST", path: taskPath + "/cancel", id: "cancelTask", tag: "Tasks", doc: "Asks the servers to cancel an active task. The answer does not wait for that.",
			body: &CancelRequest{}, opt: true, example: json.RawMessage(`{"then":"archive"}`), status: 202,
			out: &Task{}, handle: (*call).cancelTask, problems: []int{404, 409, 412, 422, 503}},
		{method: "POST", path: taskPath + "/clone", id: "cloneTask", tag: "Tasks", doc: "Enqueues a new task with the type, payload, headers and options of this one, but for those in the body.",
			body: &Options{}, opt: true, example: json.RawMessage(`{"queue":"low"}`), status: 201,
			out: &Task{}, handle: (*call).cloneTask, problems: []int{404, 409, 422, 503}},
		{method: "GET", path: "/errors", id: "listErrors", tag: "Tasks", doc: "Groups the tasks that wait for a retry or are archived by their types and by what their errors have in common.",
			params: failed, out: &Grouped[ErrorGroup]{}, handle: (*call).listErrors, problems: []int{503}},
		{method: "GET", path: "/types", id: "listTypes", tag: "Tasks", doc: "Counts tasks by type and state.",
			params: counted, out: &Grouped[TypeGroup]{}, handle: (*call).listTypes, problems: []int{503}},

		{method: "GET", path: "/operations", id: "listOperations", tag: "Operations", doc: "Lists operations, the newest first. Those that have ended are forgotten after an hour.",
			params: []param{{name: "status", kind: "string", list: true, enum: []string{"waiting", "running", "done", "failed", "canceled"}, doc: "Only these."}},
			out:    &OperationList{}, handle: (*call).listOperations},
		{method: "POST", path: "/operations", id: "startOperation", tag: "Operations", doc: "Changes many tasks in the background, or counts them with dry_run.",
			body: &OperationRequest{}, example: json.RawMessage(`{"kind":"run","queue":"mail","state":"archived","filter":"error:\"timed out\"","dry_run":true}`),
			status: 202, out: &Operation{}, also: map[int]any{200: &OperationCount{}}, handle: (*call).startOperation, problems: []int{404, 422, 503}},
		{method: "GET", path: "/operations/{id}", id: "getOperation", tag: "Operations", doc: "Tells how far an operation has come.",
			params: []param{{name: "wait", kind: "integer", max: 30, def: 0, doc: "Wait for its end, for so many seconds at most."}},
			out:    &Operation{}, handle: (*call).getOperation, problems: []int{404}},
		{method: "DELETE", path: "/operations/{id}", id: "cancelOperation", tag: "Operations", doc: "Ends an operation soon. What it has changed stays changed.",
			status: 202, out: &Operation{}, handle: (*call).cancelOperation, problems: []int{404}},

		{method: "GET", path: "/servers", id: "listServers", tag: "Servers", doc: "Lists the running servers, the oldest first.",
			out: &ServerList{}, handle: (*call).listServers, problems: []int{503}},
		{method: "GET", path: "/workers", id: "listWorkers", tag: "Servers", doc: "Lists what the servers process.",
			params: []param{{name: "queue", kind: "string", doc: "Only tasks of this queue."}, {name: "server", kind: "string", doc: "Only those of this server."}},
			out:    &WorkerList{}, handle: (*call).listWorkers, problems: []int{503}},
		{method: "GET", path: "/schedules", id: "listSchedules", tag: "Schedules", doc: "Lists the entries of all running schedulers.",
			out: &ScheduleList{}, handle: (*call).listSchedules, problems: []int{503}},
		{method: "GET", path: "/schedules/{id}/history", id: "scheduleHistory", tag: "Schedules", doc: "Lists when an entry was enqueued, the newest first. Of each the last 1,000 times are kept; that of an unknown one is empty.",
			params: []param{{name: "page", kind: "integer", min: 1, max: 1000, def: 1, doc: "The first is 1."}, limitParam},
			out:    &ScheduleEvents{}, handle: (*call).scheduleHistory, problems: []int{503}},
		{method: "POST", path: "/schedules/{id}/run", id: "runSchedule", tag: "Schedules", doc: "Enqueues the task of an entry now. Its own times stay as they are.",
			status: 201, out: &Task{}, handle: (*call).runSchedule, problems: []int{404, 409, 422, 503}},

		{method: "GET", path: "/redis", id: "getRedis", tag: "System", doc: "Tells what Redis tells of itself.",
			out: &Redis{}, handle: (*call).getRedis, problems: []int{503}},
		{method: "GET", path: "/health", id: "getHealth", tag: "System", doc: "Tells how all of it is, in sentences. The status code is 200, whatever they say.",
			out: &Health{}, handle: (*call).getHealth},
		{method: "GET", path: "/whoami", id: "whoami", tag: "System", doc: "Tells who asks, and what that user may do.",
			out: &Whoami{}, handle: (*call).whoami},
		{method: "GET", path: "/openapi.json", id: "openapi", tag: "System", doc: "The OpenAPI document of this API.",
			out: map[string]any{}, handle: (*call).document},
		{method: "GET", path: "/openapi.yaml", id: "openapiYAML", tag: "System", doc: "The same, for tools that want YAML: all JSON is YAML.",
			out: map[string]any{}, handle: (*call).documentYAML},
		{method: "GET", path: "/", id: "index", tag: "System", doc: "The entrance.", out: &Index{}, handle: (*call).index},
	}
	return routes
}

func seriesParams() []param {
	return []param{
		{name: "metric", kind: "string", list: true, enum: poll.MetricNames(), doc: "Only these."},
		{name: "span", kind: "integer", min: 10, max: 3 * 24 * 3600, def: 600, doc: "How many seconds back."},
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
