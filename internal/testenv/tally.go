package testenv

import (
	"context"
	"slices"
	"sync"

	"github.com/asynq-go/asynq"
)

// Tally counts how often each task ran. The zero value is ready to use.
type Tally struct {
	mu   sync.Mutex
	runs map[string]int
	list []string // one ID per run, in order
}

// Add counts a run of a task and returns the number of its runs so far.
func (c *Tally) Add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = make(map[string]int)
	}
	c.runs[id]++
	c.list = append(c.list, id)
	return c.runs[id]
}

// Of returns how often a task ran.
func (c *Tally) Of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

// Distinct returns the number of different tasks that ran.
func (c *Tally) Distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// Order returns the ID of each run, in order.
func (c *Tally) Order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// Handle is a handler that only counts the task, by its type.
func (c *Tally) Handle(_ context.Context, task *asynq.Task) error {
	c.Add(task.Type())
	return nil
}
