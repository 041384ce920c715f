package dash

import (
	"fmt"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/acltest"
)

// TestACLObserver checks that all pages work with the permissions of an observer.
func TestACLObserver(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	client, _ := tools(t, r.As("producer"))
	for n := range 3 {
		enqueue(t, client, asynq.NewTask("email:send", []byte(fmt.Sprint(n))), asynq.TaskID(fmt.Sprint("mail", n)))
	}
	enqueue(t, client, asynq.NewTask("email:send", nil), asynq.Group("g"))
	_, observer := tools(t, r.As("observer"))
	o := quick(nil, observer)
	o.ReadOnly = true
	d := drive(t, o)
	d.see("default", "1 queue")
	d.keys("enter")
	d.see("mail0", "1–3 of 3")
	d.keys("enter")
	d.see("email:send", "State         pending")
	d.keys("2 /")
	d.typed("payload:1")
	d.keys("enter")
	d.see("1 found")
	d.keys("3")
	d.see("1 group")
	d.keys("4")
	d.see("0 servers")
	d.keys("5")
	d.see("0 entries")
	d.keys("6")
	d.see("No retry or archived tasks")
	d.keys("F")
	d.see("There are no flows.")
}
