package browser_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// add enqueues a task and returns its ID.
func (s *site) add(t *testing.T, typename, payload string, opts ...asynq.Option) string {
	t.Helper()
	info, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// state returns the state of a task, or 0 if it does not exist.
func (s *site) state(t *testing.T, queue, id string) asynq.TaskState {
	t.Helper()
	info, err := s.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.State
}

// queue returns the state of a queue.
func (s *site) queue(t *testing.T, name string) *asynq.QueueInfo {
	t.Helper()
	info, err := s.inspector.GetQueueInfo(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A queue is paused and resumed, and deleted after its name is typed.
func TestQueueActions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "a", "")
	s.add(t, "a", "", asynq.Queue(hostile))
	for _, name := range []string{"default", hostile} {
		b := open(t, s.url, "404") // a reload after the queue is deleted and before the page changes
		b.visit("/queues")
		b.click("main tbody th a", strings.SplitN(name, "\n", 2)[0])
		b.click("main button", "Pause")
		b.says("Queue paused", "paused")
		if !s.queue(t, name).Paused {
			t.Errorf("%q is not paused", name)
		}
		b.click("main button", "Resume")
		b.says("Queue resumed")
		if s.queue(t, name).Paused {
			t.Errorf("%q is still paused", name)
		}

		b.click("main button", "Delete…")
		b.asked("Delete queue", "This deletes 1 task")
		b.accessible("question")
		b.click("#ask a", "Cancel")
		b.until(`!document.getElementById("ask").open`)
		b.click("main button", "Delete…")
		b.asked("Delete queue")
		b.write("#ask input[name=confirm]", "defaul")
		b.until(`document.querySelector("#ask form button").disabled`)
		b.keys("\r") // a disabled button prevents submission with the Enter key
		if got := s.queue(t, name).Size; got != 1 {
			t.Errorf("%q holds %d tasks, before its name was typed", name, got)
		}
		b.write("#ask input[name=confirm]", strings.ReplaceAll(name, "\n", " "))
		b.click("#ask form button", "Delete queue")
		b.says("Queue and tasks deleted.")
		if _, err := s.inspector.GetQueueInfo(name); !errors.Is(err, asynq.ErrQueueNotFound) {
			t.Errorf("%q is still there: %v", name, err)
		}
	}
}
