package survey

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	maxText   = 4 << 10 // bytes of a stored text
	maxTexts  = 8       // of a kind of error
	maxRefs   = 20      // of a kind of error, and of a task type
	maxKinds  = 5000    // kinds of errors, and separately task types: a program may generate any number
	kindCache = 10_000  // texts with cached kinds
)

// Identify returns a short ID for the kind of an error. The command line uses the same.
func Identify(text string) string { return identify(asynq.ErrorKind(text)) }

func identify(kind string) string {
	sum := sha256.Sum256([]byte(kind))
	return hex.EncodeToString(sum[:8])
}

// tally counts the tasks of a survey.
type tally struct {
	at       time.Time
	extents  []Extent
	broken   []Broken
	kinds    map[string]string        // by text
	failures map[string]*failureTally // by kind
	types    map[string]*typeTally
}

type place struct {
	queue string
	state asynq.TaskState
}

type failureTally struct {
	Failure
	places map[place]int
	types  map[string]map[place]int
	texts  map[string]map[string]int // by queue
}

type typeTally struct {
	Type
	places map[place]int
}

func newTally(now time.Time) *tally {
	return &tally{
		at: now, kinds: make(map[string]string), failures: make(map[string]*failureTally), types: make(map[string]*typeTally),
	}
}

func (t *tally) add(task *asynq.TaskInfo) {
	t.addType(task)
	if task.LastErr != "" && (task.State == asynq.TaskStateRetry || task.State == asynq.TaskStateArchived) {
		t.addFailure(task)
	}
}

func (t *tally) addType(task *asynq.TaskInfo) {
	of := t.types[task.Type]
	if of == nil {
		if len(t.types) == maxKinds {
			return
		}
		of = &typeTally{Type: Type{Name: strings.Clone(task.Type)}, places: make(map[place]int)}
		t.types[of.Name] = of
	}
	of.N++
	of.places[place{task.Queue, task.State}]++
	switch at := task.LastFailedAt; {
	case task.State == asynq.TaskStateCompleted:
		if t.at.Sub(task.CompletedAt) < time.Hour {
			of.LastHour++
		}
	case task.State != asynq.TaskStateRetry && task.State != asynq.TaskStateArchived:
	case !at.IsZero() && (of.Failing.IsZero() || at.Before(of.Failing)):
		of.Failing = at
	}
	of.Tasks = addRef(of.Tasks, task)
}

func (t *tally) addFailure(task *asynq.TaskInfo) {
	kind, ok := t.kinds[task.LastErr]
	if !ok {
		kind = asynq.ErrorKind(task.LastErr)
		if len(t.kinds) < kindCache && len(task.LastErr) <= maxText {
			t.kinds[task.LastErr] = kind
		}
	}
	of := t.failures[kind]
	if of == nil {
		if len(t.failures) == maxKinds {
			return
		}
		of = &failureTally{
			Failure: Failure{ID: identify(kind), Kind: kind}, places: make(map[place]int), types: make(map[string]map[place]int),
			texts: make(map[string]map[string]int),
		}
		t.failures[kind] = of
	}
	in := place{task.Queue, task.State}
	of.N++
	of.places[in]++
	if of.types[task.Type] == nil {
		of.types[task.Type] = make(map[place]int)
	}
	of.types[task.Type][in]++
	text := task.LastErr
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	if in := of.texts[text]; in != nil {
		in[task.Queue]++
	} else if len(of.texts) < maxTexts {
		of.texts[text] = map[string]int{task.Queue: 1}
	}
	if at := task.LastFailedAt; !at.IsZero() {
		if of.First.IsZero() || at.Before(of.First) {
			of.First = at
		}
		if at.After(of.Last) {
			of.Last = at
		}
		if ago := int(max(t.at.Sub(at), 0) / time.Hour); ago < Hours {
			of.ByHour[Hours-1-ago]++
		}
	}
	of.Tasks = addRef(of.Tasks, task)
}

// addRef keeps the latest tasks.
func addRef(refs []Ref, task *asynq.TaskInfo) []Ref {
	at := task.LastFailedAt
	if task.CompletedAt.After(at) {
		at = task.CompletedAt
	}
	if len(refs) == maxRefs && !at.After(refs[maxRefs-1].At) {
		return refs
	}
	n, _ := slices.BinarySearchFunc(refs, at, func(r Ref, at time.Time) int {
		if r.At.Before(at) {
			return 1
		}
		return -1 // tasks with equal times stay in order
	})
	refs = slices.Insert(refs, n, Ref{task.Queue, task.ID, task.State, at, task.Retried, task.MaxRetry})
	return refs[:min(len(refs), maxRefs)]
}

// result returns the current state; the tally may continue.
func (t *tally) result(whole bool) *Result {
	r := &Result{At: t.at, Took: time.Since(t.at), Whole: whole, Extents: slices.Clone(t.extents), Broken: slices.Clone(t.broken)}
	for _, of := range t.failures {
		f := of.Failure
		f.Shares, f.Tasks = shares(of.places), slices.Clone(of.Tasks)
		for name, places := range of.types {
			typ := TypeShares{Name: name, Shares: shares(places)}
			typ.N = Sum(typ.Shares, "", 0)
			f.Types = append(f.Types, typ)
		}
		slices.SortFunc(f.Types, func(a, b TypeShares) int { return cmp.Or(b.N-a.N, strings.Compare(a.Name, b.Name)) })
		for text, in := range of.texts {
			t := Text{Text: text, ByQueue: maps.Clone(in)}
			for _, n := range in {
				t.N += n
			}
			f.Texts = append(f.Texts, t)
		}
		slices.SortFunc(f.Texts, func(a, b Text) int { return cmp.Or(b.N-a.N, strings.Compare(a.Text, b.Text)) })
		r.Failures = append(r.Failures, &f)
	}
	slices.SortFunc(r.Failures, func(a, b *Failure) int {
		return cmp.Or(b.N-a.N, strings.Compare(a.Kind, b.Kind))
	})
	for _, of := range t.types {
		typ := of.Type
		typ.Shares, typ.Tasks = shares(of.places), slices.Clone(of.Tasks)
		r.Types = append(r.Types, &typ)
	}
	slices.SortFunc(r.Types, func(a, b *Type) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func shares(places map[place]int) []Share {
	list := make([]Share, 0, len(places))
	for p, n := range places {
		list = append(list, Share{p.queue, p.state, n})
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(b.N-a.N, strings.Compare(a.Queue, b.Queue), int(a.State)-int(b.State))
	})
	return list
}
