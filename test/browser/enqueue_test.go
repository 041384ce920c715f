package browser_test

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// A task is enqueued with the form. Errors are shown beside their fields, and the input is kept.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "other", "", asynq.Queue("mail"))
	b := open(t, s.url, "422")
	b.visit("/enqueue")
	b.write("input[name=type]", "email:welcome")
	b.write("input[name=queue]", "mail")
	b.write("textarea[name=payload]", `{"n":12345678901234567890`)
	b.write("input[name=process_in]", "2h")
	b.click("main summary", "More options")
	b.write("input[name=max_retry]", "-7")
	b.write("input[name=timeout]", "90x")
	b.write("input[name=retention]", "1d")
	b.write("input[name=id]", "by-hand")
	b.write("textarea[name=headers]", "trace: t-1\nno colon")
	b.click("main button.solid", "Enqueue")
	b.says("Not valid JSON at line 1, character")
	for field, wrong := range map[string]string{"max_retry": "whole number", "timeout": "Not a duration", "headers": "name: value"} {
		b.until(`(() => { const f = document.querySelector("[name=` + field + `]");
			return f.getAttribute("aria-invalid") === "true" && document.getElementById(f.getAttribute("aria-describedby")).innerText.includes(` + quote(wrong) + `) })()`)
	}
	b.accessible("form with mistakes")
	for field, value := range map[string]string{
		"type": "email:welcome", "queue": "mail", "payload": `{"n":12345678901234567890`, "process_in": "2h", "max_retry": "-7", "timeout": "90x",
		"retention": "1d", "id": "by-hand", "headers": "trace: t-1\nno colon",
	} {
		if got := eval[string](b, `document.querySelector("main [name=`+field+`]").value`); got != value {
			t.Errorf("what was typed into %s is %q now", field, got)
		}
	}
	if got := s.queue(t, "mail").Size; got != 1 {
		t.Errorf("the queue has %d tasks", got)
	}
	b.write("textarea[name=payload]", `{"n":12345678901234567890}`)
	b.write("input[name=max_retry]", "7")
	b.write("input[name=timeout]", "90s")
	b.write("textarea[name=headers]", "trace: t-1")
	b.click("main button.solid", "Enqueue")
	b.says("The task is scheduled in queue mail")
	info, err := s.inspector.GetTaskInfo("mail", "by-hand")
	if err != nil {
		t.Fatal(err)
	}
	if info.Type != "email:welcome" || string(info.Payload) != `{"n":12345678901234567890}` || info.State != asynq.TaskStateScheduled ||
		info.MaxRetry != 7 || info.Timeout != 90*time.Second || info.Retention != 24*time.Hour || info.Headers["trace"] != "t-1" {
		t.Errorf("it is %+v", info)
	}
	if in := time.Until(info.NextProcessAt); in < time.Hour || in > 3*time.Hour {
		t.Errorf("it runs in %v", in)
	}

	// The ID exists now, which only Redis detects.
	b.visit("/enqueue")
	b.write("input[name=type]", "email:welcome")
	b.write("input[name=queue]", "mail")
	b.click("main summary", "More options")
	b.write("input[name=id]", "by-hand")
	b.keys("\r")
	b.says("The queue already has a task with this ID")
}
