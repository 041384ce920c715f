package apiv2

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

func TestOperations(t *testing.T) {
	s := newSite(t, nil)
	s.many(300, "mail", "a", asynq.ProcessIn(time.Hour))
	s.many(100, "mail", "b", asynq.ProcessIn(time.Hour))
	var n OperationCount
	s.want(200, "POST", "/operations", `{"kind":"archive","queue":"mail","state":"scheduled","filter":"type:b","dry_run":true}`).into(&n)
	if n != (OperationCount{true, 100, 400, true, 0}) {
		t.Errorf("%+v", n)
	}
	if s.gate.last() != "" {
		t.Error("a dry run is in the log")
	}
	r := s.want(202, "POST", "/operations", `{"kind":"archive","queue":"mail","state":"scheduled","filter":"type:b"}`)
	var op Operation
	r.into(&op)
	if op.User != "ann" || r.header.Get("Location") != "/monitor/api/v2/operations/"+op.ID {
		t.Errorf("%+v at %s", op, r.header.Get("Location"))
	}
	s.want(200, "GET", "/operations/"+op.ID+"?wait=30", "").into(&op)
	if op.Status != "done" || op.Changed != 100 || *op.Total != 400 {
		t.Errorf("%+v", op)
	}
	<-s.gate.told
	if got := s.gate.last(); got != `task.archive mail/ scheduled "type:b" 100 true` {
		t.Errorf("the log has %s", got)
	}
	s.want(202, "POST", "/operations", `{"kind":"delete","queue":"mail","ids":["a-000","none"]}`).into(&op)
	s.want(200, "GET", "/operations/"+op.ID+"?wait=30", "").into(&op)
	if op.Changed != 1 || op.Failed != 1 || !op.Results[0].OK || op.Results[1].Error == "" {
		t.Errorf("%+v", op)
	}
	s.want(202, "DELETE", "/operations/"+op.ID, "")
	var list OperationList
	s.want(200, "GET", "/operations?status=done", "").into(&list)
	if len(list.Items) != 2 || list.Items[0].ID != op.ID {
		t.Errorf("%+v", list)
	}
	s.want(404, "GET", "/operations/none", "")
	s.want(404, "DELETE", "/operations/none", "")
	s.want(404, "POST", "/operations", `{"kind":"delete","queue":"none","state":"archived"}`)
	for body, pointer := range map[string]string{
		`{"queue":"q","state":"archived"}`:                                           "/kind",
		`{"kind":"run","state":"archived"}`:                                          "/queue",
		`{"kind":"run","queue":"q","state":"pending"}`:                               "/state",
		`{"kind":"run","queue":"q","state":"archived","filter":"tpye:x"}`:            "/filter",
		`{"kind":"run","queue":"q","state":"archived","dry_run":true,"max_scan":-1}`: "/max_scan",
		`{"kind":"run","queue":"q","state":"archived","ids":3}`:                      "/ids",
		`{"kind":"run","queue":"q","ids":["a"],"filter":"type:x"}`:                   "/filter",
		`{"kind":"run","queue":"q","ids":["a"],"state":"archived"}`:                  "/state",
		`{"kind":"run","queue":"q","ids":["a"],"group":"g","dry_run":true}`:          "/group",
		`{"kind":"run","queue":"q","ids":[],"state":"archived"}`:                     "/ids",
	} {
		var p Problem
		if s.want(422, "POST", "/operations", body).into(&p); p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// A user without the permission for one task can neither start nor cancel an operation.
func TestOperationsRequirePermission(t *testing.T) {
	s := newSite(t, nil)
	s.many(3, "mail", "a", asynq.ProcessIn(time.Hour))
	var op Operation
	s.want(202, "POST", "/operations", `{"kind":"delete","queue":"mail","state":"scheduled"}`).into(&op)
	s.gate.refuse = access.TaskDelete
	s.want(403, "POST", "/operations", `{"kind":"delete","queue":"mail","state":"scheduled"}`)
	s.want(403, "DELETE", "/operations/"+op.ID, "")
}

// A queue that the poller does not record.
func TestSeriesThatAreNotKept(t *testing.T) {
	s := newSite(t, func(c *Config) { c.History = func(string, []string, time.Duration) *Series { return nil } })
	s.many(1, "mail", "a")
	for _, path := range []string{"/queues/mail/series", "/series?metric=pending"} {
		var got Series
		if s.want(200, "GET", path, "").into(&got); got.Times == nil || len(got.Times) > 0 || got.Values == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
	s.want(404, "GET", "/queues/nope/series", "")
	s.want(400, "GET", "/series?metric=bogus", "")
}

// TestEveryRoute calls each route, and checks the permission that it requires and its response
// against the OpenAPI document.
func TestEveryRoute(t *testing.T) {
	s := newSite(t, func(c *Config) {
		c.History = func(string, []string, time.Duration) *Series {
			one := 1.0
			return &Series{Times: []int64{1, 2}, Values: map[string][]*float64{"pending": {nil, &one}}}
		}
	})
	s.many(3, "mail", "a", asynq.ProcessIn(time.Hour), asynq.Group("g"))
	s.many(2, "mail", "b", asynq.Group("g"))
	sched := asynq.NewScheduler(s.opt, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	entry, err := sched.Register("@every 1h", asynq.NewTask("tick", []byte(`{"a":1}`)), asynq.Queue("mail"), asynq.MaxRetry(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := sched.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.Shutdown)
	proctest.Eventually(t, "the scheduler to tell of its entry", func() bool { return strings.Contains(string(s.get("/schedules").body), entry) })
	srv := asynq.NewServer(s.opt, asynq.Config{Queues: map[string]int{"other": 1}, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.NewServeMux()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	var servers ServerList
	proctest.Eventually(t, "the server", func() bool {
		s.get("/servers").into(&servers)
		return len(servers.Items) == 1 && servers.Items[0].RemoteControl
	})
	server := servers.Items[0].ID
	var op Operation
	s.want(202, "POST", "/operations", `{"kind":"run","queue":"mail","ids":["none"]}`).into(&op)
	f := flow.New("order")
	first := f.Add("first", asynq.NewTask("a", nil))
	f.Add("second", asynq.NewTask("b", nil)).After(first)
	if _, err := flow.Start(t.Context(), s.client, f); err != nil {
		t.Fatal(err)
	}
	task := taskURL("mail", "a-000")
	called := make(map[string]bool)
	for _, c := range []struct {
		id, method, path, body string
		status                 int
		verb                   access.Verb
	}{
		{"index", "GET", "", "", 200, access.View},
		{"typeStats", "GET", "/stats/types", "", 200, access.View},
		{"statsHistory", "GET", "/stats/history?queue=mail", "", 200, access.View},
		{"errorStats", "GET", "/stats/errors", "", 200, access.View},
		{"listPartitions", "GET", "/queues/mail/partitions", "", 200, access.View},
		{"getPartition", "GET", "/queues/mail/partition?key=a%2Fb", "", 200, access.View},
		{"setPartition", "PUT", "/queues/mail/partition?key=a", `{"concurrency":2}`, 200, access.PartitionSet},
		{"pausePartition", "POST", "/queues/mail/partition/pause?key=a", "", 200, access.PartitionSet},
		{"resumePartition", "POST", "/queues/mail/partition/resume", "", 200, access.PartitionSet},
		{"cancelPartition", "POST", "/queues/mail/partition/cancel?key=a", "", 200, access.TaskCancel},
		{"deletePartitionTasks", "DELETE", "/queues/mail/partition/tasks?key=a", "", 200, access.TaskDelete},
		{"listFlows", "GET", "/flows", "", 200, access.View},
		{"getFlow", "GET", "/flows/order", "", 200, access.View},
		{"skipFlowNode", "POST", "/flows/order/nodes/second/skip", "", 200, access.FlowChange},
		{"retryFlow", "POST", "/flows/order/retry", "", 200, access.FlowChange},
		{"cancelFlow", "POST", "/flows/order/cancel", "", 200, access.FlowChange},
		{"openapi", "GET", "/openapi.json", "", 200, access.View},
		{"whoami", "GET", "/whoami", "", 200, access.View},
		{"listAudit", "GET", "/audit", "", 200, access.AuditView},
		{"getHealth", "GET", "/health", "", 200, access.View},
		{"muteCause", "POST", "/health/mutes", `{"id":"paused:a/b","until":null,"note":"n"}`, 204, access.HealthMute},
		{"unmuteCause", "DELETE", "/health/mutes/paused:a%2Fb", "", 204, access.HealthMute},
		{"getRedis", "GET", "/redis", "", 503, access.View},
		{"listQueues", "GET", "/queues", "", 200, access.View},
		{"getQueue", "GET", "/queues/mail", "", 200, access.View},
		{"queueHistory", "GET", "/queues/mail/history", "", 200, access.View},
		{"queueSeries", "GET", "/queues/mail/series?metric=pending&span=60", "", 200, access.View},
		{"series", "GET", "/series", "", 200, access.View},
		{"listGroups", "GET", "/queues/mail/groups", "", 200, access.View},
		{"searchTasks", "GET", "/tasks", "", 200, access.View},
		{"listTasks", "GET", "/queues/mail/tasks", "", 200, access.View},
		{"getTask", "GET", task, "", 200, access.View},
		{"listErrors", "GET", "/errors", "", 200, access.View},
		{"listTypes", "GET", "/types", "", 200, access.View},
		{"listOperations", "GET", "/operations", "", 200, access.View},
		{"getOperation", "GET", "/operations/" + op.ID, "", 200, access.View},
		{"listServers", "GET", "/servers", "", 200, access.View},
		{"listWorkers", "GET", "/workers?queue=mail", "", 200, access.View},
		{"listSchedules", "GET", "/schedules", "", 200, access.View},
		{"scheduleHistory", "GET", "/schedules/" + entry + "/history", "", 200, access.View},
		{"pauseSchedule", "POST", "/schedules/" + entry + "/pause", "", 204, access.SchedulePause},
		{"resumeSchedule", "POST", "/schedules/" + entry + "/resume", "", 204, access.ScheduleResume},
		{"patchServer", "PATCH", "/servers/" + server, `{"concurrency":7}`, 200, access.ServerConcurrency},
		{"pauseServerQueue", "POST", "/servers/" + server + "/queues/other/pause", "", 200, access.ServerPauseQueue},
		{"resumeServerQueue", "POST", "/servers/" + server + "/queues/other/resume", "", 200, access.ServerResumeQueue},
		{"quietServer", "POST", "/servers/" + server + "/quiet", "", 200, access.ServerQuiet},
		{"stopServer", "POST", "/servers/" + server + "/stop", "", 202, access.ServerStop},
		{"runSchedule", "POST", "/schedules/" + entry + "/run", "", 201, access.ScheduleRun},
		{"patchQueue", "PATCH", "/queues/mail", `{"paused":true}`, 200, access.QueuePause},
		{"patchQueue", "PATCH", "/queues/mail", `{"paused":false}`, 200, access.QueueResume},
		{"enqueueTask", "POST", "/tasks", `{"type":"x"}`, 201, access.TaskEnqueue},
		{"enqueueTasks", "POST", "/tasks:batch", `{"tasks":[{"type":"x"}]}`, 200, access.TaskEnqueue},
		{"patchTask", "PATCH", task, `{"payload":{"value":1}}`, 200, access.TaskEdit},
		{"patchTask", "PATCH", task, `{"next_process_at":"2040-01-01T00:00:00Z"}`, 200, access.TaskReschedule},
		{"cloneTask", "POST", task + "/clone", "", 201, access.TaskEnqueue},
		{"archiveTask", "POST", task + "/archive", "", 200, access.TaskArchive},
		{"runTask", "POST", task + "/run", "", 200, access.TaskRun},
		{"cancelTask", "POST", task + "/cancel", "", 409, access.TaskCancel},
		{"deleteTask", "DELETE", task, "", 204, access.TaskDelete},
		{"startOperation", "POST", "/operations", `{"kind":"archive","queue":"mail","state":"scheduled"}`, 202, access.TaskArchive},
		{"cancelOperation", "DELETE", "/operations/" + op.ID, "", 202, access.TaskRun},
		{"deleteQueue", "DELETE", "/queues/mail?force=true", "", 204, access.QueueDelete},
	} {
		s.gate.asked = nil
		s.want(c.status, c.method, c.path, c.body)
		if len(s.gate.asked) == 0 || s.gate.asked[len(s.gate.asked)-1].Verb != c.verb {
			t.Errorf("%s has asked for leave with %v, want %s", c.id, s.gate.asked, c.verb)
		}
		called[c.id] = true
		s.gate.refuse = c.verb
		s.want(403, c.method, c.path, c.body)
		s.gate.refuse = ""
	}
	called["openapiYAML"] = s.want(200, "GET", "/openapi.yaml", "").status == 200
	ids := make(map[string]bool)
	for _, r := range s.api.routes {
		if !called[r.id] {
			t.Errorf("no test calls %s", r.id)
		}
		if ids[r.id] || r.doc == "" || r.tag == "" {
			t.Errorf("the route %s %s has no name of its own, or is not documented", r.method, r.path)
		}
		ids[r.id] = true
		if r.example != nil {
			operation := s.doc["paths"].(object)[r.path].(object)[strings.ToLower(r.method)].(object)
			content := operation["requestBody"].(object)["content"].(object)["application/json"].(object)
			s.fits(content["schema"].(object), r.example.(json.RawMessage), r.id)
		}
		if r.body != nil && !slices.Contains(r.problems, 422) {
			t.Errorf("%s has a body, and is not told to refuse any", r.id)
		}
	}
}

// Archiving more tasks than the archive keeps is counted in advance, and refused without consent.
func TestFullArchive(t *testing.T) {
	s := newSite(t, nil)
	s.many(asynq.ArchiveMaxTasks-2, "mail", "old")
	done, err := s.inspector.ArchiveTasks(t.Context(), "mail", asynq.TaskStatePending, asynq.TaskFilter{})
	if err != nil || done.Archived != asynq.ArchiveMaxTasks-2 {
		t.Fatal(done, err)
	}
	s.many(5, "mail", "new")
	const body = `{"kind":"archive","queue":"mail","state":"pending"`
	var n OperationCount
	s.want(200, "POST", "/operations", body+`,"dry_run":true}`).into(&n)
	if n != (OperationCount{true, 5, 0, true, 3}) {
		t.Errorf("%+v", n)
	}
	var p Problem
	for _, body := range []string{body + `}`, body + `,"filter":"type:new"}`, `{"kind":"archive","queue":"mail","ids":["new-0","new-1","new-2","new-3","new-4"]}`} {
		p = Problem{}
		s.want(409, "POST", "/operations", body).into(&p)
		if p.Type != "urn:asynq:problem:archive-full" || p.Discards != 3 || !strings.Contains(p.Detail, `archiving 5 tasks of queue "mail" deletes 3 archived tasks`) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	var op Operation
	s.want(202, "POST", "/operations", body+`,"filter":"type:new","discard_oldest":true}`).into(&op)
	s.want(200, "GET", "/operations/"+op.ID+"?wait=30", "").into(&op)
	if op.Status != "done" || op.Changed != 5 || op.Discarded != 3 || !op.Spec.DiscardOldest {
		t.Errorf("%+v", op)
	}

	s.many(1, "mail", "single")
	var list TaskList
	s.get("/queues/mail/tasks?state=pending").into(&list)
	path := "/queues/mail/tasks/" + list.Items[0].ID + "/archive"
	s.want(404, "POST", "/queues/mail/tasks/none/archive", "")
	p = Problem{}
	if s.want(409, "POST", path, "").into(&p); p.Type != "urn:asynq:problem:archive-full" || p.Discards != 1 {
		t.Errorf("%+v", p)
	}
	var task Task
	if s.want(200, "POST", path+"?discard_oldest=true", "").into(&task); task.State != "archived" {
		t.Errorf("%+v", task)
	}
}
