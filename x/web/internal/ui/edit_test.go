package ui

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Of two people who edit one task the second is told, and what they wrote is kept.
func TestTwoPeopleEdit(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("a", []byte(`{"a":1}`)), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	want := func(payload string) {
		t.Helper()
		if got := s.find("default", "x").Payload; string(got) != payload {
			t.Errorf("the payload is %q, want %q", got, payload)
		}
	}
	ann, ben := s.get("/edit?queue=default&id=x"), s.get("/edit?queue=default&id=x")
	ben = s.submit(ben.form("/edit"), "tidy", "indent") // his form is that of the payload that he began with
	s.follow(s.submit(ann.form("/edit"), "payload", `{"ann":"<b>"}`))
	ben = s.submit(ben.form("/edit"), "payload", `{"ben":2}`)
	if text := ben.text("main"); ben.status != 409 || !strings.Contains(text, "Somebody else has changed the payload") || !strings.Contains(text, `{"ann":"<b>"}`) {
		t.Fatalf("%d: %s", ben.status, text)
	}
	if got := strings.TrimSpace(inner(ben.one("textarea"))); got != `{"ben":2}` {
		t.Errorf("what was written becomes %q", got)
	}
	want(`{"ann":"<b>"}`)
	ben = s.submit(ben.form("/edit"), "payload", `{"ben":`) // a mistake does not lose sight of that
	s.follow(s.submit(ben.form("/edit"), "payload", `{"ben":3}`))
	want(`{"ben":3}`)
	s.follow(s.submit(ann.form("/edit"), "payload", `{"ben":3}`)) // what the task has already
	if got := s.gate.log(); len(got) != 4 || got[1] != "task.edit queue=default task=x n=1 ok=false" {
		t.Errorf("log: %q", got)
	}
	if a := s.post("/edit", "queue", "default", "id", "x", "payload", "1", "encoding", "json"); a.status != 409 {
		t.Errorf("without a word on what was seen: %d", a.status)
	}
	want(`{"ben":3}`)
}

// A change in the moment between looking and saving is not overwritten either.
func TestEditBetweenLookAndSave(t *testing.T) {
	var s *site
	var between sync.Once
	armed := false
	s = newSite(t, func(c *Config) {
		c.Redact = func(_, _ string, data []byte) []byte { // called when the payload was read
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
