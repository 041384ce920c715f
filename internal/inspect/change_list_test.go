package inspect_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Random changes of random lists, short and long, agree with a model: they remove one entry of each
// changed task and of each given dangling ID; all other entries stay, in their order. A call that
// changes no task stores no record, so its repetition may remove a second entry of a dangling ID.
func TestChangesOfRandomLists(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		t.Logf("seed %d", seed)
		m := &listModel{r: r, rand: rand.New(rand.NewPCG(seed, 0)), brokers: []*rdb.Broker{r.Broker(), redistest.RepeatingBroker(t, r)}}
		redistest.LoadScripts(context.Background(), r.Broker())
		for _, size := range []int{110_000, 9_000, 2_000, 2_000} {
			m.round(t, size)
		}
		for range 25 {
			m.round(t, m.rand.IntN(200))
		}
	})
}

// listModel holds the expected entries of pending, from the left, and the states of their tasks.
type listModel struct {
	r       *redistest.Redis
	rand    *rand.Rand
	brokers []*rdb.Broker
	list    []string
	states  map[string]wire.State
}

// round fills the list with tasks and dangling IDs, then changes some of them several times.
func (m *listModel) round(t *testing.T, size int) {
	t.Helper()
	ctx := context.Background()
	redistest.Must(t, m.r.Client().FlushDB(ctx))
	m.list, m.states = nil, make(map[string]wire.State)
	ids := m.r.Enqueue(t, "q", 1+m.rand.IntN(60))
	for i, id := range ids {
		m.states[id] = wire.StatePending
		switch m.rand.IntN(8) {
		case 0:
			if _, err := apply(m.brokers[0], inspect.Reschedule, id); err != nil {
				t.Fatal(err)
			}
			m.states[id] = wire.StateScheduled
		case 1:
			if _, err := apply(m.brokers[0], inspect.Delete, id); err != nil {
				t.Fatal(err)
			}
			delete(m.states, id)
		case 2:
			m.list = append(m.list, ids[m.rand.IntN(i+1)]) // one that is there, or has no business there
		}
		if m.states[id] == wire.StatePending || m.rand.IntN(2) == 0 {
			m.list = append(m.list, id)
		}
	}
	m.scatter(size)
	keys := m.brokers[0].Keys("q")
	redistest.Must(t, m.r.Client().Del(ctx, keys.Pending()))
	for part := range slices.Chunk(m.list, 10_000) {
		redistest.Must(t, m.r.Client().RPush(ctx, keys.Pending(), part))
	}
	for range 2 {
		m.change(t, ids)
	}
	if size >= 500 {
		return
	}
	n, err := changeAll(m.brokers[0], inspect.Delete, wire.StatePending, "")
	if left := m.r.Client().LLen(ctx, keys.Pending()).Val(); err != nil || n != m.count(wire.StatePending) || left != 0 {
		t.Errorf("deleted %d of %d, error %v; %d IDs are left", n, m.count(wire.StatePending), err, left)
	}
}

// scatter distributes the list's IDs among others: evenly, close together, or mostly at its ends.
func (m *listModel) scatter(size int) {
	m.rand.Shuffle(len(m.list), func(i, j int) { m.list[i], m.list[j] = m.list[j], m.list[i] })
	width, offset := size+1, 0
	if m.rand.IntN(2) == 0 {
		width = min(size+1, 1+m.rand.IntN(2_000))
		offset = m.rand.IntN(size + 2 - width)
	}
	places := make(map[int][]string)
	for _, id := range m.list {
		at := offset + m.rand.IntN(width)
		if m.rand.IntN(8) == 0 {
			at = []int{0, size}[m.rand.IntN(2)]
		}
		places[at] = append(places[at], id)
	}
	m.list = m.list[:0]
	for i := range size + 1 {
		m.list = append(m.list, places[i]...)
		if i < size {
			m.list = append(m.list, fmt.Sprint("filler", i))
		}
	}
}

func (m *listModel) count(state wire.State) (n int) {
	for _, s := range m.states {
		if s == state {
			n++
		}
	}
	return n
}

// change deletes or archives some tasks and compares the rest with the model.
func (m *listModel) change(t *testing.T, ids []string) {
	t.Helper()
	ctx, b := context.Background(), m.brokers[m.rand.IntN(len(m.brokers))]
	in := inspect.New(b)
	asked := []string{"nobody"}
	for _, id := range append(slices.Clone(ids), m.list[:min(len(m.list), 5)]...) {
		for range max(m.rand.IntN(5)-2, 0) { // mostly not at all, or once
			asked = append(asked, id)
		}
	}
	places := make(map[string]int, len(m.list))
	for i, id := range m.list {
		places[id] = i
	}
	switch m.rand.IntN(3) {
	case 0:
		m.rand.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	case 1:
		slices.SortFunc(asked, func(a, b string) int { return cmp.Compare(places[a], places[b]) })
	}
	verb, becomes := inspect.Delete, wire.State(0)
	if m.rand.IntN(2) == 0 {
		verb, becomes = inspect.Archive, wire.StateArchived
	}
	from := []wire.State{0, wire.StatePending}[m.rand.IntN(2)]

	want := make([]script.Code, len(asked))
	taken := make(map[string]bool) // from the list, and whether it surely is
	changed := make(map[string]bool)
	for i, id := range asked {
		switch state, there := m.states[id]; {
		case !there:
			want[i] = script.CodeGone
		case changed[id]:
			want[i] = script.CodeAlready
		case from != 0 && state != from:
			want[i] = script.CodeLost
		case becomes != 0 && state == becomes:
			want[i] = script.CodeUnfit
		default:
			changed[id] = true
			if state == wire.StatePending {
				taken[id] = true
			}
		}
		if from != 0 && (want[i] == script.CodeGone || want[i] == script.CodeLost) {
			taken[id] = len(m.list) < 500
		}
	}
	codes, err := in.Change(ctx, inspect.Change{Verb: verb, Queue: "q", From: from}, asked)
	if err != nil || !slices.Equal(codes, want) {
		t.Errorf("%s of %q found in %v: codes %v, want %v, error %v", verb, asked, from, codes, want, err)
	}
	for id := range changed {
		if m.states[id] = becomes; becomes == 0 {
			delete(m.states, id)
		}
	}
	entries := 1
	if len(changed) == 0 && b == m.brokers[1] {
		entries = 2
	}
	m.compare(t, string(verb), taken, entries)
}

// compare removes the changed IDs, up to the given number of entries of each, from the model's list
// and compares everything.
func (m *listModel) compare(t *testing.T, name string, taken map[string]bool, entries int) {
	t.Helper()
	ctx, keys := context.Background(), m.brokers[0].Keys("q")
	got := m.r.Client().LRange(ctx, keys.Pending(), 0, -1).Val()
	less := make(map[string]int) // mentions
	at := 0
	for _, id := range m.list {
		if at < len(got) && got[at] == id {
			at++
		} else {
			less[id]++
		}
	}
	if at < len(got) {
		t.Fatalf("%s: %q is in the list, or not where it was", name, got[at])
	}
	for _, id := range m.list {
		surely, some := taken[id]
		if n := less[id]; n > entries || n > 0 && !some || n == 0 && surely {
			t.Fatalf("%s: %q lost %d mentions of a list of %d", name, id, n, len(m.list))
		}
	}
	m.list = got
	for id, state := range m.states {
		if s := m.r.Client().HGet(ctx, keys.Task(id), "state").Val(); s != state.String() {
			t.Errorf("%s: the state of %q is %q, want %v", name, id, s, state)
		}
	}
	archived := m.r.Client().ZRange(ctx, keys.Archived(), 0, -1).Val()
	if tasks := m.r.Client().Keys(ctx, keys.TaskPrefix()+"*").Val(); len(tasks) != len(m.states) || len(archived) != m.count(wire.StateArchived) {
		t.Errorf("%s: %d tasks, %d of them archived, want %d and %d", name, len(tasks), len(archived), len(m.states), m.count(wire.StateArchived))
	}
}
