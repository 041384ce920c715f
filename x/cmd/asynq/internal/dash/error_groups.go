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
	// errorInterval is how often failed tasks are scanned while the errors are on the screen.
	errorInterval = 10 * time.Second
	// maxScanPerState and maxScanTotal limit the number of scanned tasks.
	maxScanPerState = 1000
	maxScanTotal    = 10000
	// errorSamples is the maximum number of sampled tasks per error group.
	errorSamples = 100
	// fingerprintBytes is the length of the prefix of an error that determines its group.
	fingerprintBytes = 400
)

// errorGroups are the errors of retry and archived tasks, grouped by task type and fingerprint.
type errorGroups struct {
	at     time.Time
	groups []*errorGroup
	// tasks is the number of scanned tasks. partial means that more tasks exist.
	tasks   int
	partial bool
}

// errorGroup is a group of similar errors of one task type.
type errorGroup struct {
	typename, fingerprint string
	count, archived       int
	queues                map[string]int
	// newest is the task that failed last. samples are up to errorSamples tasks.
	newest  *asynq.TaskInfo
	samples []*asynq.TaskInfo
}

func (f *errorGroup) key() string { return f.typename + "\x00" + f.fingerprint }

func (f fetcher) errors(b *base) (*errorGroups, error) {
	found := &errorGroups{at: time.Now()}
	groups := make(map[string]*errorGroup)
	for _, q := range b.queues {
		if q.info == nil {
			continue
		}
		for _, state := range []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateArchived} {
			if count(q.info, state) == 0 {
				continue
			}
			if found.tasks >= maxScanTotal {
				found.partial = true
				break
			}
			for task, err := range f.insp.Tasks(f.ctx, q.name, state, asynq.TaskFilter{MaxScan: maxScanPerState}) {
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

// with sets the groups, largest first.
func (found *errorGroups) with(groups map[string]*errorGroup) *errorGroups {
	for _, g := range groups {
		slices.SortStableFunc(g.samples, func(a, b *asynq.TaskInfo) int { return b.LastFailedAt.Compare(a.LastFailedAt) })
		found.groups = append(found.groups, g)
	}
	slices.SortFunc(found.groups, func(a, b *errorGroup) int {
		return cmp.Or(cmp.Compare(b.count, a.count), b.newest.LastFailedAt.Compare(a.newest.LastFailedAt), cmp.Compare(a.key(), b.key()))
	})
	return found
}

func add(groups map[string]*errorGroup, task *asynq.TaskInfo) {
	if task.LastErr == "" {
		return // archived manually
	}
	g := &errorGroup{typename: task.Type, fingerprint: fingerprint(task.LastErr), queues: make(map[string]int)}
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
	if len(g.samples) < errorSamples {
		g.samples = append(g.samples, task)
	}
}

// varying matches the parts that differ between errors with the same cause: quoted text, IDs,
// addresses and numbers.
var varying = regexp.MustCompile("\"[^\"]*\"|'[^']*'|`[^`]*`" +
	`|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
	`|0x[0-9a-fA-F]+|\b[0-9a-f]*[0-9][0-9a-f]{7,}\b|\d+(?:[.:,]\d+)*`)

// A status code of HTTP, SMTP and similar protocols is part of the fingerprint: three digits
// followed by words, such as "503 Service Unavailable".
var (
	status = regexp.MustCompile(`^[1-5]\d\d$`)
	worded = regexp.MustCompile(`^ [a-zA-Z]`)
)

// fingerprint returns the text of an error without its varying parts.
func fingerprint(text string) string {
	if len(text) > fingerprintBytes {
		text = text[:fingerprintBytes]
	}
	if line, _, ok := strings.Cut(text, "\n"); ok {
		text = line // the rest is usually a stack trace
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
