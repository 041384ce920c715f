package dash

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func TestRedisRestart(t *testing.T) {
	t.Parallel()
	r := proctest.StartRedis(t)
	client, insp := tools(t, asynq.RedisClientOpt{Addr: r.Addr()})
	enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
	d := drive(t, quick(client, insp))
	d.see("mail")

	r.Kill()
	d.see("Redis is unreachable. Showing the state of", "mail")
	d.keys("2")
	d.see("Redis is unreachable", "Loading …")
	d.keys("?")
	d.see("Keys")
	d.keys("esc 1")
	d.see("All queues", "mail")

	r.Restart(t)
	enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("other"))
	d.lacks("Redis is unreachable")
	d.see("other")
}

func TestUnresponsiveRedis(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.Map
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
		}
	}()
	end := func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool { return c.(net.Conn).Close() == nil })
	}
	t.Cleanup(end)
	_, insp := tools(t, asynq.RedisClientOpt{Addr: l.Addr().String()})
	d := drive(t, quick(nil, insp))
	t.Cleanup(end) // before the test waits for the poller
	d.until("a poll starts", func() bool { return !d.m.polling.IsZero() })
	d.see("Connecting …")
	d.m.clock = func() time.Time { return time.Now().Add(5 * time.Second) }
	d.keys("2 3 ? esc 1 j k G")
	d.see("Redis is slow: waiting for 5s", "no data")
}

func TestTaskPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for range 2*tasksPerPage + 7 {
			enqueue(t, client, asynq.NewTask("x", nil))
		}
		d := drive(t, quick(client, insp))
		d.see("207")
		d.keys("enter")
		d.see("1–100 of 207")
		d.keys(">")
		d.see("101–200 of 207")
		d.keys("end >")
		d.see("201–207 of 207")
		d.keys("> >")
		d.see("201–207 of 207")
		d.keys("< < <")
		d.see("1–100 of 207")
	})
}

func TestCursorFollowsTask(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for _, id := range []string{"one", "two", "three"} {
			enqueue(t, client, asynq.NewTask("x", nil), asynq.TaskID(id))
		}
		d := drive(t, quick(client, insp))
		d.see("default")
		d.keys("enter")
		d.see("one", "two", "three")
		d.keys("down down")
		if err := insp.DeleteTask("default", "one"); err != nil {
			t.Fatal(err)
		}
		d.lacks("one")
		if r, _ := d.m.selected(); r.ref.id != "three" {
			t.Errorf("the cursor moved from task three to %q", r.ref.id)
		}
	})
}
