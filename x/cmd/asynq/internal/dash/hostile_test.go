package dash

import (
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// Names and texts of tasks cannot control the terminal on any page or in dialogs, forms and
// messages.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		const hostile = "\x1b]0;title\a\x1b[2J\u009b31m\u0085\u202egnp\u2066\u2028\u2029\ufeff\ufffe\uffff\x7f\r\n\tend"
		client, insp := tools(t, r)
		queue := "q" + hostile
		for id, opts := range map[string][]asynq.Option{
			"1": nil, "2": {asynq.ProcessIn(time.Hour)}, "3": {asynq.Group("g" + hostile)}, "4": nil,
		} {
			opts = append(opts, asynq.Queue(queue), asynq.TaskID(id+hostile), asynq.Header("h"+hostile, hostile))
			enqueue(t, client, asynq.NewTask("t"+hostile, []byte(hostile)), opts...)
		}
		if err := insp.ArchiveTask(queue, "4"+hostile); err != nil {
			t.Fatal(err)
		}
		s := asynq.NewScheduler(r, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		if _, err := s.Register("@every 1h", asynq.NewTask("t"+hostile, []byte(hostile)), asynq.Queue(queue)); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		d := drive(t, quick(client, insp))
		d.see("1 queue")
		for _, step := range []struct{ keys, see string }{
			{"p", "Pause queue"}, {"y", "paused queue"}, {"enter", "▌1"}, {"a", "Archive task"}, {"n", "nothing was changed"},
			{"D", "Delete"}, {"n e", "Enqueue a task"}, {"esc enter", "Headers"}, {"v v", "Payload  hex"}, {"v esc right", "No active tasks"}, {"right", "▌2"},
			{"r y", "moved to pending"}, {"3", "1 group"}, {"enter", "▌3"}, {"4", "No running servers"}, {"5", "@every 1h"}, {"enter", "esc back"}, {"6", "No retry or archived tasks"}, {"1", "All queues"},
		} {
			d.keys(step.keys)
			d.see(step.see)
			for _, line := range d.m.screen() {
				if strings.ContainsFunc(ansi.Strip(line), out.Unsafe) {
					t.Fatalf("after %s the screen has %q", step.keys, line)
				}
			}
		}
	})
}
