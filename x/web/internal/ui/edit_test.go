package ui

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Of two users who edit the same task, the second one is notified, and the entered payload is kept.
func TestConcurrentEdits(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", []byte(`{"a":1}`)), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	want := func(payload string) {
		t.Helper()
		if got := s.find("default", "x").Payload; string(got) != payload {
			t.Errorf("the payload is %q, want %q", got, payload)
		}
	}
	ann, ben := s.get("/edit?queue=default&id=x"), s.get("/edit?queue=default&id=x")
	ben = s.submit(ben.form("/edit"), "tidy", "indent") // the form has the digest of the original payload
	s.follow(s.submit(ann.form("/edit"), "payload", `{"ann":"<b>"}`))
	ben = s.submit(ben.form("/edit"), "payload", `{"ben":2}`)
	if text := ben.text("main"); ben.status != 409 || !strings.Contains(text, "The payload has changed") || !strings.Contains(text, `{"ann":"<b>"}`) {
		t.Fatalf("%d: %s", ben.status, text)
	}
	if got := strings.TrimSpace(inner(ben.one("textarea"))); got != `{"ben":2}` {
		t.Errorf("what was written becomes %q", got)
	}
	want(`{"ann":"<b>"}`)
	ben = s.submit(ben.form("/edit"), "payload", `{"ben":`) // an error keeps the digest
	s.follow(s.submit(ben.form("/edit"), "payload", `{"ben":3}`))
	want(`{"ben":3}`)
	s.follow(s.submit(ann.form("/edit"), "payload", `{"ben":3}`)) // the current payload of the task
	if got := s.gate.log(); len(got) != 4 || got[1] != "task.edit queue=default task=x n=1 ok=false" {
		t.Errorf("log: %q", got)
	}
	if a := s.post("/edit", "queue", "default", "id", "x", "payload", "1", "encoding", "json"); a.status != 409 {
		t.Errorf("without a word on what was seen: %d", a.status)
	}
	want(`{"ben":3}`)
}

// A change between reading and saving is not overwritten either.
func TestEditBetweenReadAndSave(t *testing.T) {
	var s *site
	var between sync.Once
	armed := false
	s = newSite(t, func(c *Config) {
		c.Redact = func(_, _ string, data []byte) []byte { // called after the payload was read
			if armed {
				between.Do(func() {
					if err := s.inspector.UpdateTaskPayload("default", "x", []byte("theirs")); err != nil {
						t.Error(err)
					}
				})
			}
			return data
		}
	})
	s.enqueue(asynq.NewTask("a", []byte("old")), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	form := s.get("/edit?queue=default&id=x").form("/edit")
	armed = true
	a := s.submit(form, "payload", "mine")
	if got := s.find("default", "x").Payload; a.status != 409 || string(got) != "theirs" {
		t.Errorf("%d, and the payload is %q", a.status, got)
	}
	s.follow(s.submit(a.form("/edit")))
	if got := s.find("default", "x").Payload; string(got) != "mine" {
		t.Errorf("then the payload is %q", got)
	}
}
