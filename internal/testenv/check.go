package testenv

import (
	"context"
	"errors"
	"slices"

	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/wire"
)

// State returns the state field of a task of the default queue, or "" if the task does not exist.
func (env *Env) State(id string) string {
	return env.RDB.HGet(context.Background(), env.Queue.Task(id), wire.FieldState).Val()
}

// Message returns the message of a task of the default queue.
func (env *Env) Message(id string) *wire.TaskMessage {
	env.T.Helper()
	b, err := env.RDB.HGet(context.Background(), env.Queue.Task(id), wire.FieldMessage).Bytes()
	if err != nil {
		env.T.Fatalf("message of %q: %v", id, err)
	}
	m, err := wire.DecodeTaskMessage(b)
	if err != nil {
		env.T.Fatalf("message of %q: %v", id, err)
	}
	return m
}

// AwaitState waits until a task is in the given state. The state "" means that the task is gone.
func (env *Env) AwaitState(id, want string) {
	env.T.Helper()
	env.Eventually(func() bool { return env.State(id) == want }, "task %q to be in state %q", id, want)
}

// AwaitEmpty waits until the default queue has no tasks.
func (env *Env) AwaitEmpty() {
	env.T.Helper()
	env.Eventually(func() bool { return len(env.Keys(env.Queue.TaskPrefix()+"*")) == 0 }, "all tasks to finish")
}

// Keys returns the keys that match a pattern, sorted.
func (env *Env) Keys(pattern string) []string {
	keys := env.RDB.Keys(context.Background(), pattern).Val()
	slices.Sort(keys)
	return keys
}

// LockHolder returns the ID of the task that holds the uniqueness lock for tasks of a type without
// payload, or "" if the lock is free.
func (env *Env) LockHolder(typename string) string {
	return env.RDB.Get(context.Background(), env.Queue.Unique(typename, nil)).Val()
}

// CheckInvariants reports each invariant that does not hold as an error of the test. No task may
// change its state during the check. Leases may be extended: of the violations that the check then
// finds, as its pages move, only those that it finds again are real.
func (env *Env) CheckInvariants(when string) {
	env.T.Helper()
	var found []rdbcheck.Violation
	for run := range 3 {
		again, err := rdbcheck.Check(context.Background(), env.RDB, wire.DefaultNamespace)
		if err != nil {
			env.T.Fatal(err)
		}
		if run == 0 {
			found = again
		}
		found = slices.DeleteFunc(found, func(v rdbcheck.Violation) bool { return !slices.Contains(again, v) })
		if len(found) == 0 {
			return
		}
	}
	for _, v := range found {
		env.T.Errorf("%s: broken invariant: %v", when, v)
	}
}

// Counts returns the numbers of processed and of failed attempts of the default queue. The daily
// counters must add up to the totals. Attempts may end during the call.
func (env *Env) Counts() (processed, failed int64) {
	env.T.Helper()
	ctx := context.Background()
	get := func(key string) int64 {
		n, _ := env.RDB.Get(ctx, key).Int64() // 0 if there is none
		return n
	}
	total := func(key string) int64 {
		before, after, days := int64(-1), get(key), int64(0)
		for before != after { // an attempt ended between the reads
			before, days = after, 0
			for _, day := range env.Keys(key + ":*") {
				days += get(day)
			}
			after = get(key)
		}
		if days != after {
			env.T.Errorf("%s is %d, but the daily counters add up to %d", key, after, days)
		}
		return after
	}
	return total(env.Queue.Processed()), total(env.Queue.Failed())
}

// WantCounts compares Counts with the expected values.
func (env *Env) WantCounts(processed, failed int64) {
	env.T.Helper()
	if p, f := env.Counts(); p != processed || f != failed {
		env.T.Errorf("counted %d processed and %d failed, want %d and %d", p, f, processed, failed)
	}
}

// NoError reports an error of the test unless err is nil.
func (env *Env) NoError(err error) {
	env.T.Helper()
	if err != nil {
		env.T.Error(err)
	}
}

// ErrorIs reports an error of the test unless err wraps want.
func (env *Env) ErrorIs(err, want error) {
	env.T.Helper()
	if !errors.Is(err, want) {
		env.T.Errorf("got the error %v, want %v", err, want)
	}
}
