package browser_test

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Of two users who edit the same payload, the second one is notified, sees the current payload,
// keeps the entered one, and can overwrite the current one with it.
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
	first.says("Payload saved.")

	second.write("textarea[name=payload]", `{"n":3}`)
	second.click("main button.solid", "Save")
	second.says("The payload has changed since you opened it")
	second.until(`document.querySelector("section[aria-labelledby=theirs] pre").innerText === '{"n":2}' && document.querySelector("textarea[name=payload]").value === '{"n":3}'`)
	second.accessible("edit conflict")
	payload(`{"n":2}`)
	second.click("main button.solid", "Overwrite with my version")
	second.says("Payload saved.")
	payload(`{"n":3}`)
}
