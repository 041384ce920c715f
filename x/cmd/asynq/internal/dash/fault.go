package dash

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// faultsEvery is how often errors are looked for while they are on the screen.
	faultsEvery = 10 * time.Second
	// faultsPerState and faultsAtMost bound how many failed tasks are looked at.
	faultsPerState = 1000
	faultsAtMost   = 10000
	// faultSamples is how many tasks of each group of errors are kept.
	faultSamples = 100
	// fingerprintBytes is how much of an error counts.
	fingerprintBytes = 400
)

// faults are the errors of tasks that wait for their retry or are archived, grouped by what they have in common.
type faults struct {
	at     time.Time
	groups []*fault
	// tasks is how many were looked at, and partial says that there are more.
	tasks   int
	partial bool
}

// fault is a group of alike errors of one type of task.
type fault struct {
	typename, fingerprint string
	count, archived       int
	queues                map[string]int
	// newest is the task that failed last, samples are up to faultSamples tasks.
	newest  *asynq.TaskInfo
	samples []*asynq.TaskInfo
}

func (f *fault) key() string { return f.typename + "\x00" + f.fingerprint }

func (f fetcher) faults(b *base) (*faults, error) {
	found := &faults{at: time.Now()}
	groups := make(map[string]*fault)
	for _, q := range b.queues {
		if q.info == nil {
			continue
		}
		for _, state := range []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateArchived} {
			if count(q.info, state) == 0 {
				continue
			}
			if found.tasks >= faultsAtMost {
				found.partial = true
				break
			}
			for task, err := range f.insp.Tasks(f.ctx, q.name, state, asynq.TaskFilter{MaxScan: faultsPerState}) {
				if errors.Is(err, asynq.ErrScanLimit) {
					found.partial = true
					break
				}
				if err != nil {
					if errors.Is(err, asynq.ErrQueueNotFound) {
						break
					}
					return nil, err
				}
				found.tasks++
				add(groups, task)
			}
		}
	}
	return found.with(groups), nil
}

// with takes groups over, the largest first.
func (found *faults) with(groups map[string]*fault) *faults {
	for _, g := range groups {
		slices.SortStableFunc(g.samples, func(a, b *asynq.TaskInfo) int { return b.LastFailedAt.Compare(a.LastFailedAt) })
		found.groups = append(found.groups, g)
	}
	slices.SortFunc(found.groups, func(a, b *fault) int {
		return cmp.Or(cmp.Compare(b.count, a.count), b.newest.LastFailedAt.Compare(a.newest.LastFailedAt), cmp.Compare(a.key(), b.key()))
	})
	return found
}

func add(groups map[string]*fault, task *asynq.TaskInfo) {
	if task.LastErr == "" {
		return // archived by hand
	}
	g := &fault{typename: task.Type, fingerprint: fingerprint(task.LastErr), queues: make(map[string]int)}
	if known := groups[g.key()]; known != nil {
		g = known
	} else {
		groups[g.key()] = g
	}
	g.count++
	g.queues[task.Queue]++
	if task.State == asynq.TaskStateArchived {
		g.archived++
	}
	if g.newest == nil || task.LastFailedAt.After(g.newest.LastFailedAt) {
		g.newest = task
	}
	if len(g.samples) < faultSamples {
		g.samples = append(g.samples, task)
	}
}

// varying is what differs between errors of one cause: quoted text, IDs, addresses, and numbers of all kinds.
var varying = regexp.MustCompile("\"[^\"]*\"|'[^']*'|`[^`]*`" +
	`|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
	`|0x[0-9a-fA-F]+|\b[0-9a-f]*[0-9][0-9a-f]{7,}\b|\d+(?:[.:,]\d+)*`)

// A status of HTTP, SMTP and the like is no detail but the error itself: three digits with words behind them, as in "503 Service
// Unavailable".
var (
	status = regexp.MustCompile(`^[1-5]\d\d$`)
	worded = regexp.MustCompile(`^ [a-zA-Z]`)
)

// fingerprint is what is the same in errors of one cause.
func fingerprint(text string) string {
	if len(text) > fingerprintBytes {
		text = text[:fingerprintBytes]
	}
	if line, _, ok := strings.Cut(text, "\n"); ok {
		text = line // what follows is a stack, most of the time
	}
	var b strings.Builder
	end := 0
	for _, at := range varying.FindAllStringIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		if part := text[at[0]:at[1]]; status.MatchString(part) && worded.MatchString(text[at[1]:]) {
			b.WriteString(part)
		} else {
			b.WriteString("…")
		}
		end = at[1]
	}
	b.WriteString(text[end:])
	return strings.Join(strings.Fields(b.String()), " ")
}
