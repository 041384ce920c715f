package browser_test

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Of two who edit one payload the second is told, sees what the first has made of it, keeps what was typed, and may have it replace that.
func TestEditConflict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.add(t, "a", `{"n":1}`, asynq.ProcessIn(time.Hour))
	payload := func(want string) {
		t.Helper()
		info, err := s.inspector.GetTaskInfo("default", id)
		if err != nil {
			t.Fatal(err)
		}
		if string(info.Payload) != want {
			t.Errorf("the payload is %s, want %s", info.Payload, want)
		}
	}
	edit := q("/edit", "queue", "default", "id", id)
	first, second := open(t, s.url), open(t, s.url, "409") // the browser logs the status
	for _, b := range []*tab{first, second} {
		b.visit(edit)
		b.until(`document.querySelector("textarea[name=payload]").value === '{"n":1}'`)
	}
	first.write("textarea[name=payload]", `{"n":2}`)
	first.click("main button.solid", "Save")
	first.says("The task has its new payload.")

	second.write("textarea[name=payload]", `{"n":3}`)
	second.click("main button.solid", "Save")
	second.says("Somebody else has changed the payload meanwhile")
	second.until(`document.querySelector("section[aria-labelledby=theirs] pre").innerText === '{"n":2}' && document.querySelector("textarea[name=payload]").value === '{"n":3}'`)
	second.accessible("edit conflict")
	payload(`{"n":2}`)
	second.click("main button.solid", "Replace theirs with mine")
	second.says("The task has its new payload.")
	payload(`{"n":3}`)
}
