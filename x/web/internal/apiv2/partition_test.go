package apiv2

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// Partitions are listed with their tasks, and changed one by one, whatever their keys contain.
func TestPartitions(t *testing.T) {
	s := newSite(t, nil)
	const odd = "a/b %;ü"
	for n := range 4 {
		s.enqueue("hook", "", asynq.Queue("hooks"), asynq.PartitionKey(odd), asynq.TaskID(fmt.Sprint("odd-", n)))
	}
	s.enqueue("hook", "", asynq.Queue("hooks"), asynq.PartitionKey("b"))
	s.enqueue("hook", "", asynq.Queue("hooks"), asynq.TaskID("none"))
	canceled := make(chan struct{}, 10)
	srv := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 10, Queues: map[string]int{"hooks": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		QueueConfigs:   map[string]asynq.QueueConfig{"hooks": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
	})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		canceled <- struct{}{}
		return ctx.Err()
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	list := func(query string) (l PartitionList) {
		s.want(200, "GET", "/queues/hooks/partitions"+query, "").into(&l)
		return l
	}
	proctest.Eventually(t, "the tasks to start", func() bool {
		l := list("?sort=active")
		return l.Total == 3 && l.Items[2].Active == 1
	})
	l := list("?limit=1")
	if first := l.Items[0]; len(l.Items) != 1 || l.Total != 3 || !l.Complete || first.Key != odd || first.Held != 3 || first.Active != 1 || !first.Blocked || first.CheckAt == nil {
		t.Errorf("%+v of %+v", l.Items[0], l)
	}
	if l := list("?sort=key&offset=1"); len(l.Items) != 2 || l.Items[0].Key != odd || l.Items[1].Key != "b" {
		t.Errorf("%+v", l.Items)
	}
	if l := list("?prefix=a%2F"); l.Total != 1 {
		t.Errorf("%+v", l)
	}
	var task Task
	s.want(200, "GET", taskURL("hooks", "odd-3"), "").into(&task)
	if !task.Held || task.PartitionKey != odd || task.State != "scheduled" {
		t.Errorf("%+v", task)
	}
	var q Queue
	s.want(200, "GET", "/queues/hooks", "").into(&q)
	if q.Held != 3 || q.Tasks.Scheduled != 0 || q.Tasks.Active != 3 {
		t.Errorf("%+v", q)
	}

	at := "/queues/hooks/partition?key=" + url.QueryEscape(odd)
	var p Partition
	s.want(200, "PUT", at, `{"concurrency":2,"rate":{"events":5,"burst":5},"weight":0.5}`).into(&p)
	if p.Key != odd || *p.Settings.Concurrency != 2 || *p.Settings.Rate != (PartitionRate{5, 1, 5}) || *p.Settings.Weight != 0.5 {
		t.Errorf("%+v", p)
	}
	if p.CheckAt != nil && p.CheckAt.Before(p.At) {
		t.Errorf("the limits are checked at %v, and it is %v", p.CheckAt, p.At)
	}
	proctest.Eventually(t, "another task to start", func() bool {
		s.want(200, "GET", at, "").into(&p)
		return p.Active == 2 && p.Held == 2
	})
	s.want(200, "POST", "/queues/hooks/partition/pause?key="+url.QueryEscape(odd), "").into(&p)
	if !p.Paused || *p.Settings.Concurrency != 2 {
		t.Errorf("paused: %+v", p)
	}
	p = Partition{}
	s.want(200, "PUT", at, `{"concurrency":0,"rate":{"events":0}}`).into(&p)
	if !p.Paused || *p.Settings.Concurrency != 0 || p.Settings.Rate.Events != 0 || p.Settings.Weight != nil {
		t.Errorf("without limits: %+v", p)
	}
	var change PartitionChange
	proctest.Eventually(t, "the tasks to be canceled", func() bool {
		s.want(200, "POST", "/queues/hooks/partition/cancel?key="+url.QueryEscape(odd), "").into(&change)
		return len(canceled) >= 2
	})
	s.want(200, "DELETE", "/queues/hooks/partition/tasks?key="+url.QueryEscape(odd), "").into(&change)
	if change.Tasks < 2 {
		t.Errorf("%+v", change)
	}
	s.want(200, "POST", "/queues/hooks/partition/resume?key="+url.QueryEscape(odd), "").into(&p)
	if p.Paused {
		t.Errorf("resumed: %+v", p)
	}
	s.want(200, "GET", "/queues/hooks/partition", "").into(&p)
	if p.Key != "" || p.Active != 1 {
		t.Errorf("without a key: %+v", p)
	}

	for body, pointer := range map[string]string{
		`{"concurrency":-1}`: "/concurrency", `{"rate":{"events":-1}}`: "/rate", `{"weight":0}`: "/weight", `{"paused":true}`: "/paused", `{"concurrency":1001}`: "",
		`{"rate":{"events":1,"per_seconds":90000}}`: "",
	} {
		var problem Problem
		s.want(422, "PUT", at, body).into(&problem)
		if len(problem.Errors) == 0 || pointer != "" && problem.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, problem)
		}
	}
	s.want(422, "GET", "/queues/hooks/partition?key=%00", "")
	s.want(404, "GET", "/queues/none/partitions", "")
	s.want(404, "PUT", "/queues/none/partition?key=a", `{}`)
	s.want(404, "DELETE", "/queues/none/partition/tasks?key=a", "")
}

// A pause that comes while limits are saved remains.
func TestPauseDuringSave(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue("hook", "", asynq.Queue("hooks"))
	var paused atomic.Bool
	s.redis.Server().SetPreHook(func(_ *server.Peer, name string, args ...string) bool {
		if strings.EqualFold(name, "evalsha") && len(args) > 2 && args[2] == "asynq:{hooks}:partitions:settings" && paused.CompareAndSwap(false, true) {
			if err := s.inspector.PausePartition(context.Background(), "hooks", "a"); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	s.want(200, "PUT", "/queues/hooks/partition?key=a", `{"concurrency":3}`)
	p, err := s.inspector.GetPartitionInfo(context.Background(), "hooks", "a")
	if err != nil || p.Settings != (asynq.PartitionSettings{Concurrency: 3, Paused: true}) {
		t.Errorf("%+v, %v", p, err)
	}
}
