package web_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/x/web"
)

// The table of permissions in docs/WEB.md matches the roles.
func TestDocsListAllVerbs(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/WEB.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|([^|\n]*)\\|([^|\n]*)\\|([^|\n]*)\\|").FindAllStringSubmatch(string(doc), -1) {
		rows[m[1]] = m[2:]
	}
	for _, verb := range []web.Verb{
		web.View, web.TaskRun, web.TaskArchive, web.TaskDelete, web.TaskCancel, web.TaskReschedule, web.TaskEdit, web.TaskEnqueue,
		web.QueuePause, web.QueueResume, web.QueueDelete, web.PartitionSet, web.FlowChange, web.ScheduleRun, web.AuditView, web.SchedulePause, web.ScheduleResume,
		web.ServerPauseQueue, web.ServerResumeQueue, web.ServerConcurrency, web.ServerQuiet, web.ServerStop, web.HealthMute,
	} {
		row, ok := rows[string(verb)]
		if !ok {
			t.Errorf("no row for %s", verb)
			continue
		}
		for i, role := range []web.Role{web.Viewer, web.Operator, web.Admin} {
			if (strings.TrimSpace(row[i]) == "yes") != role.May(verb) {
				t.Errorf("%s: the row says %q for a %v", verb, row[i], role)
			}
		}
		delete(rows, string(verb))
	}
	for verb := range rows {
		t.Errorf("there is no verb %s", verb)
	}
}
