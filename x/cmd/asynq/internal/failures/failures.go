// Package failures groups failed tasks by the kinds of their errors.
package failures

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// maxKinds bounds the kinds of a Tally: a program may generate any number.
	maxKinds = 5000
	// kindCache is the number of texts whose kinds are kept, maxCached the bytes of such a text.
	kindCache = 10_000
	maxCached = 4 << 10
)

// States are the states of failed tasks.
var States = []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateArchived}

// Kind is a kind of error, and the tasks that failed with it.
type Kind struct {
	ID   string // from ID
	Text string // from asynq.ErrorKind

	Count, Archived int
	Types, Queues   map[string]int
	// First and Last are the earliest and the latest of the last failures of the tasks.
	First, Last time.Time
	// Samples are some of the tasks, among them the one that failed last, latest failure first.
	Samples []*asynq.TaskInfo
}

// Retry returns the number of tasks in retry.
func (k *Kind) Retry() int { return k.Count - k.Archived }

// Example returns the task that failed last.
func (k *Kind) Example() *asynq.TaskInfo { return k.Samples[0] }

// ID returns the ID of a kind. The web UI uses the same.
func ID(kind string) string {
	sum := sha256.Sum256([]byte(kind))
	return hex.EncodeToString(sum[:8])
}

// Counted is a name with a number of tasks.
type Counted struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Top returns names with their counts, most frequent first.
func Top(counts map[string]int) []Counted {
	list := make([]Counted, 0, len(counts))
	for name, n := range counts {
		list = append(list, Counted{name, n})
	}
	slices.SortFunc(list, func(a, b Counted) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Name, b.Name)) })
	return list
}

// cache returns the kinds of texts. Tasks that failed together often have the same text.
type cache map[string]string

func (c cache) kind(text string) string {
	kind, ok := c[text]
	if !ok {
		kind = asynq.ErrorKind(text)
		if len(c) < kindCache && len(text) <= maxCached {
			c[text] = kind
		}
	}
	return kind
}

// Match returns a function for asynq.TaskFilter that selects the tasks of a kind by its ID. It is
// not safe for concurrent use.
func Match(id string) func(*asynq.TaskInfo) bool {
	texts, ids := make(cache), make(map[string]bool)
	return func(t *asynq.TaskInfo) bool {
		if t.LastErr == "" {
			return false
		}
		kind := texts.kind(t.LastErr)
		match, ok := ids[kind]
		if !ok {
			match = ID(kind) == id
			if len(ids) < maxKinds {
				ids[kind] = match
			}
		}
		return match
	}
}

// Tally groups tasks.
type Tally struct {
	Tasks int // tasks added, also those without an error

	samples int
	kinds   map[string]*Kind
	texts   cache
}

// NewTally returns an empty Tally that keeps a number of samples of each kind.
func NewTally(samples int) *Tally {
	return &Tally{samples: max(samples, 1), kinds: make(map[string]*Kind), texts: make(cache)}
}

// Add counts a task. It has no kind if it was archived before it failed.
func (t *Tally) Add(task *asynq.TaskInfo) {
	t.Tasks++
	if task.LastErr == "" {
		return
	}
	text := t.texts.kind(task.LastErr)
	k := t.kinds[text]
	if k == nil {
		if len(t.kinds) == maxKinds {
			return
		}
		k = &Kind{ID: ID(text), Text: text, Types: make(map[string]int), Queues: make(map[string]int)}
		t.kinds[text] = k
	}
	k.Count++
	k.Types[task.Type]++
	k.Queues[task.Queue]++
	if task.State == asynq.TaskStateArchived {
		k.Archived++
	}
	at := task.LastFailedAt
	if !at.IsZero() && (k.First.IsZero() || at.Before(k.First)) {
		k.First = at
	}
	newest := at.After(k.Last)
	if newest {
		k.Last = at
	}
	if len(k.Samples) < t.samples {
		k.Samples = append(k.Samples, task)
	} else if newest {
		k.Samples[len(k.Samples)-1] = task
	}
}

// Kinds returns the kinds, most frequent first.
func (t *Tally) Kinds() []*Kind {
	kinds := make([]*Kind, 0, len(t.kinds))
	for _, k := range t.kinds {
		slices.SortStableFunc(k.Samples, func(a, b *asynq.TaskInfo) int { return b.LastFailedAt.Compare(a.LastFailedAt) })
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b *Kind) int {
		return cmp.Or(b.Count-a.Count, b.Last.Compare(a.Last), strings.Compare(a.Text, b.Text))
	})
	return kinds
}
