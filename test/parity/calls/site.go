package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// site is the environment of a row.
type site struct {
	addr     string
	db       int
	redis    *redis.Client
	start    time.Time
	cleanups []func()
	noDump   bool // the contents of Redis depend on timing

	mu   sync.Mutex
	seen []Observation
	step string
}

// opt connects to the database of the row.
func (s *site) opt() asynq.RedisClientOpt { return asynq.RedisClientOpt{Addr: s.addr, DB: s.db} }

// unreachable is an address that refuses connections.
const unreachable = "127.0.0.1:1"

func (s *site) cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// client returns a client that is closed at the end.
func (s *site) client() *asynq.Client {
	c := asynq.NewClient(s.opt())
	s.cleanup(func() { _ = c.Close() }) // the row may have closed it
	return c
}

// inspector returns an inspector that is closed at the end.
func (s *site) inspector() *asynq.Inspector {
	i := asynq.NewInspector(s.opt())
	s.cleanup(func() { _ = i.Close() }) // the row may have closed it
	return i
}

// at sets the name of the step, which prefixes the aspects from now on.
func (s *site) at(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step + " "
}

// see records an observation.
func (s *site) see(aspect string, v any) {
	text := s.show(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	aspect = s.step + aspect
	for n, unique := 2, aspect; ; n++ {
		if !s.has(unique) {
			s.seen = append(s.seen, Observation{unique, text})
			return
		}
		unique = fmt.Sprintf("%s %d", aspect, n)
	}
}

func (s *site) has(aspect string) bool {
	for _, o := range s.seen {
		if o.Aspect == aspect {
			return true
		}
	}
	return false
}

var sentinels = []struct {
	name string
	err  error
}{
	{"ErrDuplicateTask", asynq.ErrDuplicateTask},
	{"ErrHandlerNotFound", asynq.ErrHandlerNotFound},
	{"ErrLeaseExpired", asynq.ErrLeaseExpired},
	{"ErrQueueNotEmpty", asynq.ErrQueueNotEmpty},
	{"ErrQueueNotFound", asynq.ErrQueueNotFound},
	{"ErrServerClosed", asynq.ErrServerClosed},
	{"ErrTaskIDConflict", asynq.ErrTaskIDConflict},
	{"ErrTaskNotFound", asynq.ErrTaskNotFound},
	{"RevokeTask", asynq.RevokeTask},
	{"SkipRetry", asynq.SkipRetry},
	{"context.Canceled", context.Canceled},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
	{"redis.ErrClosed", redis.ErrClosed},
	{"redis.Nil", redis.Nil},
}

// err records whether a call failed, its text, and the results of errors.Is.
func (s *site) err(err error) {
	s.see("fails", err != nil)
	if err == nil {
		s.see("error", "none")
		s.see("errors.Is", "none")
		return
	}
	s.see("error", err.Error())
	is := "none"
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel.err) {
			if is == "none" {
				is = ""
			}
			is += " " + sentinel.name
		}
	}
	s.see("errors.Is", is)
}

// result records the result of a call.
func (s *site) result(v any, err error) {
	s.err(err)
	s.see("result", v)
}

// guard records the value that f panics with.
func (s *site) guard(what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.see(what+"panic", fmt.Sprint(v))
		}
	}()
	f()
}

// until waits until f returns true, and records a timeout.
func (s *site) until(what string, f func() bool) {
	for end := time.Now().Add(rowLimit / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	s.see("never", what)
}
