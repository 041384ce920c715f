package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// verbs are all of them.
var verbs = []inspect.Verb{inspect.Run, inspect.Archive, inspect.Reschedule, inspect.Delete}

// apply changes tasks of queue q. It reschedules them to one hour from now.
func apply(b *rdb.Broker, verb inspect.Verb, ids ...string) ([]script.Code, error) {
	ch := inspect.Change{Verb: verb, Queue: "q", At: time.Now().Add(time.Hour).Unix()}
	return inspect.New(b).Change(context.Background(), ch, ids)
}

// allStates lists the tasks that seedChanges creates, each with a lock. Names with a G are tasks of
// group g.
var allStates = []string{
	"pending", "active", "scheduled", "retry", "archived", "completed", "scheduledG", "retryG", "archivedG", "completedG", "aggregatingG", "stagedG",
}

// seedChanges creates a task in each state in queue q. Its ID is the name of the state.
func seedChanges(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, b := context.Background(), r.Broker()
	keys := b.Keys("q")
	later := time.Now().Add(100 * time.Second).Unix()
	start := func(id string) *rdb.NewTask {
		task := redistest.Lock(redistest.NewTask(t, "q", id), id)
		if strings.HasSuffix(id, "G") {
			task.Group = "g"
		}
		return task
	}
	for id, outcome := range map[string]rdb.Outcome{
		"retry": rdb.Retry, "archived": rdb.Archive, "completed": rdb.Complete, "retryG": rdb.Retry, "archivedG": rdb.Archive,
		"completedG": rdb.Complete,
	} {
		task := start(id)
		task.Group = ""
		r.Make(t, task)
		f := r.Fetch(t, "q", 1)
		if code := redistest.Settle(t, b, rdb.Settlement{ID: id, Token: f.Token, Outcome: outcome, Delay: time.Minute, Retention: 60}); code != script.CodeOK {
			t.Fatalf("%v: code %d", outcome, code)
		}
		redistest.Must(t, r.Client().HDel(ctx, keys.Task(id), "settled"))
		if strings.HasSuffix(id, "G") {
			redistest.Must(t, r.Client().HSet(ctx, keys.Task(id), "group", "g"))
		}
	}
	r.Make(t, start("active"))
	r.Fetch(t, "q", 1)
	redistest.Must(t, r.Client().Del(ctx, keys.Marker()))
	for _, id := range []string{"scheduled", "scheduledG"} {
		task := start(id)
		task.ProcessAt = later
		r.Make(t, task)
	}
	r.Make(t, start("pending"), start("aggregatingG"), start("stagedG"))
	set := keys.AggregationSet("g", "u")
	redistest.Must(t, r.Client().ZRem(ctx, keys.Group("g"), "stagedG"))
	redistest.Must(t, r.Client().ZAdd(ctx, set, redis.Z{Score: float64(time.Now().Unix()), Member: "stagedG"}))
	redistest.Must(t, r.Client().ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: float64(later), Member: set}))
	redistest.Must(t, r.Client().Del(ctx, keys.Marker()))
}

// TestChanges makes each change to a task in each state and compares its keys in Redis.
func TestChanges(t *testing.T) {
	const (
		ready   = "Q:pending = [ID]\nQ:marker = [1] ttl 1m0s\nQ:t:ID = {msg:test(payload) pending_since:now state:pending%s}"
		grouped = "Q:g:g = {ID:now}\nQ:groups = {g}\nQ:t:ID = {group:g msg:test(payload) state:aggregating%s}"
		shelved = "Q:archived = {ID:now}\nQ:t:ID = {%smsg:test(payload) state:archived%s}"
		later   = "Q:%s = {ID:now+1h0m0s}\nQ:marker = [1] ttl 1m0s\nQ:t:ID = {%smsg:test(payload) state:%s%s}"
	)
	tests := map[inspect.Verb]map[string]struct {
		code script.Code
		want string
	}{
		inspect.Run: {
			"pending": {script.CodeUnfit, ""}, "active": {script.CodeActive, ""}, "stagedG": {script.CodeStaged, ""},
			"scheduled": {script.CodeOK, ready}, "retry": {script.CodeOK, ready}, "archived": {script.CodeOK, ready}, "completed": {script.CodeOK, ready},
			"scheduledG": {script.CodeOK, grouped}, "retryG": {script.CodeOK, grouped}, "archivedG": {script.CodeOK, grouped},
			"completedG":   {script.CodeOK, grouped},
			"aggregatingG": {script.CodeOK, strings.Replace(ready, "{msg", "{group:g msg", 1)},
		},
		inspect.Archive: {
			"active": {script.CodeActive, ""}, "stagedG": {script.CodeStaged, ""}, "archived": {script.CodeUnfit, ""}, "completed": {script.CodeOK, shelved},
			"archivedG": {script.CodeUnfit, ""}, "completedG": {script.CodeOK, shelved},
			"pending": {script.CodeOK, shelved}, "scheduled": {script.CodeOK, shelved}, "retry": {script.CodeOK, shelved},
			"scheduledG": {script.CodeOK, shelved}, "retryG": {script.CodeOK, shelved}, "aggregatingG": {script.CodeOK, shelved},
		},
		inspect.Delete: {"active": {script.CodeActive, ""}, "stagedG": {script.CodeStaged, ""}},
		inspect.Reschedule: {
			"active": {script.CodeActive, ""}, "stagedG": {script.CodeStaged, ""},
			"pending": {script.CodeOK, later}, "scheduled": {script.CodeOK, later}, "retry": {script.CodeOK, later}, "archived": {script.CodeOK, later},
			"completed": {script.CodeOK, later}, "scheduledG": {script.CodeOK, later}, "retryG": {script.CodeOK, later},
			"archivedG": {script.CodeOK, later}, "completedG": {script.CodeOK, later}, "aggregatingG": {script.CodeOK, later},
		},
	}
	for verb, states := range tests {
		for _, id := range allStates {
			t.Run(string(verb)+" "+id, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					seedChanges(t, r)
					b := r.Broker()
					tt := states[id]
					change := func() {
						codes, err := apply(b, verb, id)
						if err != nil || !slices.Equal(codes, []script.Code{tt.code}) {
							t.Errorf("codes %v, error %v; want %v", codes, err, tt.code)
						}
					}
					if tt.code != script.CodeOK {
						redistest.Unchanged(t, r, "a refused change", change)
						return
					}
					for _, other := range allStates {
						if other != id && other != "active" && other != "stagedG" {
							if _, err := apply(b, inspect.Delete, other); err != nil {
								t.Fatal(err)
							}
						}
					}
					others := othersThan(r.Dump(t), id)
					change()
					want := tt.want
					if want != "" {
						held := fmt.Sprintf(" unique_key:asynq:{q}:unique:test:%s", id)
						group := ""
						if strings.HasPrefix(id, "completed") {
							held = ""
						} else {
							want += "\nQ:unique:test:ID = ID ttl 1m0s"
						}
						if strings.HasSuffix(id, "G") {
							group = "group:g "
						}
						switch tt.want {
						case shelved:
							want = fmt.Sprintf(want, group, held)
						case later:
							state := "scheduled"
							if strings.HasPrefix(id, "retry") {
								state = "retry"
							}
							want = fmt.Sprintf(want, state, group, state, held)
						default:
							want = fmt.Sprintf(want, held)
						}
						want = strings.ReplaceAll(want, "ID", id)
					}
					redistest.WantDump(t, r, want+"\nQ:groups_due = {g:now} ttl 1h0m0s\n"+strings.Join(others, "\n"))
				})
			})
		}
	}
}

// othersThan returns the dump of the tasks that changes refuse, and of the queue itself.
func othersThan(dump []string, id string) (lines []string) {
	for _, line := range dump {
		for _, word := range []string{":active", ":lease", "stagedG", ":aggregation_sets", ":processed", ":failed", "asynq:queues"} {
			if strings.Contains(line, word) && !strings.Contains(line, ":"+id+" ") {
				lines = append(lines, line)
				break
			}
		}
	}
	return lines
}

// A repeated call returns the results of the first one and changes nothing else.
func TestChangesRepeated(t *testing.T) {
	for _, verb := range verbs {
		t.Run(string(verb), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				seedChanges(t, r)
				want := []script.Code{script.CodeOK, script.CodeActive, script.CodeStaged, script.CodeOK, script.CodeGone}
				codes, err := apply(redistest.RepeatingBroker(t, r), verb, "scheduled", "active", "stagedG", "retryG", "nobody")
				if err != nil || !slices.Equal(codes, want) {
					t.Errorf("codes %v, error %v; want %v", codes, err, want)
				}
			})
		})
	}
}

func TestChangesOfManyTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		ids := r.Enqueue(t, "q", 1300)
		mixed := append(slices.Clone(ids[:1200]), "nobody", ids[7], ids[1199])
		codes, err := apply(b, inspect.Archive, mixed...)
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range codes {
			want := script.CodeOK
			switch {
			case i == 1200:
				want = script.CodeGone
			case i == 1201:
				want = script.CodeUnfit // of another call
			case i == 1202:
				want = script.CodeAlready
			}
			if code != want {
				t.Fatalf("code %d of %s, want %d", code, mixed[i], want)
			}
		}
		for _, call := range recorded.Calls["change"] {
			if len(call.Keys) > 500+10 {
				t.Errorf("a call has %d keys", len(call.Keys))
			}
		}
		if n := r.Client().LLen(ctx, b.Keys("q").Pending()).Val(); n != 100 {
			t.Errorf("%d tasks are left in pending, want 100", n)
		}
	})
}

// A change searches a long list for tasks deep in it, in calls of bounded size. It finds tasks at
// the ends, or near a task already found, without a search.
func TestChangesInALongList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		r.AllowViolations()
		key := b.Keys("q").Pending()
		last, apart, middle, first := r.Enqueue(t, "q", 40), r.Enqueue(t, "q", 8), r.Enqueue(t, "q", 80), r.Enqueue(t, "q", 40)
		// IDs without a task in between: enqueueing so many would take long.
		filler := make([]string, 30_000)
		for i := range filler {
			filler[i] = fmt.Sprint("filler", i)
		}
		redistest.Must(t, r.Client().Del(ctx, key))
		want := slices.Concat(filler, filler)
		list := slices.Concat(first, filler, filler, last)
		for n, id := range middle {
			list = slices.Insert(list, 20_000+100*n, id)
		}
		for n, id := range apart {
			list = slices.Insert(list, 500+7000*n, id)
		}
		for id := range slices.Chunk(list, 10_000) {
			redistest.Must(t, r.Client().RPush(ctx, key, id))
		}
		for name, tt := range map[string]struct {
			ids   []string
			calls int
		}{
			"last": {last, 1}, "first": {first, 1}, "middle": {middle, 1}, "apart": {apart, 2},
		} {
			before := len(recorded.Calls["change"])
			codes, err := apply(b, inspect.Delete, tt.ids...)
			if err != nil || slices.ContainsFunc(codes, func(c script.Code) bool { return c != script.CodeOK }) {
				t.Errorf("%s: codes %v, error %v", name, codes, err)
			}
			if calls := len(recorded.Calls["change"]) - before; calls != tt.calls {
				t.Errorf("%s: %d calls, want %d", name, calls, tt.calls)
			}
		}
		if got := r.Client().LRange(ctx, key, 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("%d tasks are left, want %d in the order that they were in", len(got), len(want))
		}
	})
}

// A change does not search a long list for each ID whose task no longer exists, for example in a
// second change of the same tasks.
func TestChangesOfTasksThatAreGoneFromALongList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		found := inspect.Change{Verb: inspect.Delete, Queue: "q", From: wire.StatePending}
		key := b.Keys("q").Pending()
		r.Enqueue(t, "q", 1)
		filler := make([]string, 50_000)
		for i := range filler {
			filler[i] = fmt.Sprint("filler", i)
		}
		for id := range slices.Chunk(filler, 10_000) {
			redistest.Must(t, r.Client().RPush(ctx, key, id))
		}
		before := searches(ctx, r)
		gone := make([]string, 250)
		for i := range gone {
			gone[i] = fmt.Sprint("gone", i)
		}
		codes, err := in.Change(ctx, found, slices.Concat(gone, filler[20_000:20_250]))
		if err != nil || slices.ContainsFunc(codes, func(c script.Code) bool { return c != script.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if n := searches(ctx, r) - before; n > 10 {
			t.Errorf("the list was searched %d times", n)
		}
		codes, err = in.Change(ctx, found, filler[20_000:20_250])
		if err != nil || slices.ContainsFunc(codes, func(c script.Code) bool { return c != script.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if got, want := r.Client().LLen(ctx, key).Val(), int64(1+50_000-250); got != want {
			t.Errorf("%d entries are left, want %d: IDs without a task that are there are taken out", got, want)
		}
		before = searches(ctx, r)
		codes, err = in.Change(ctx, found, slices.Repeat(filler[49_990:49_991], 250))
		if err != nil || slices.ContainsFunc(codes, func(c script.Code) bool { return c != script.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if n := searches(ctx, r) - before; n > 1 {
			t.Errorf("the list was searched %d times for one ID", n)
		}
	})
}

// searches returns the number of LREM and LPOS calls so far, 0 if Redis does not report it.
func searches(ctx context.Context, r *redistest.Redis) (n int) {
	for line := range strings.Lines(r.Client().Info(ctx, "commandstats").Val()) {
		for _, name := range []string{"lrem", "lpos"} {
			var calls int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// A broken task, or a broken key that one task needs, does not stop changes of the other tasks.
func TestChangesOfBrokenTasks(t *testing.T) {
	for _, verb := range verbs {
		t.Run(string(verb), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, client := context.Background(), r.Client()
				seedChanges(t, r)
				b := r.Broker()
				keys := b.Keys("q")
				redistest.Must(t, client.Set(ctx, keys.Task("text"), "no hash", 0))
				redistest.Must(t, client.HSet(ctx, keys.Task("stateless"), "msg", "m"))
				redistest.Must(t, client.HSet(ctx, keys.Task("retry"), "msg", "\xff\xff", "unique_key", keys.Unique("list", nil)))
				redistest.Must(t, client.LPush(ctx, keys.Unique("list", nil), "x"))
				redistest.Must(t, client.HSet(ctx, keys.Task("archived"), "group", "text"))
				redistest.Must(t, client.Set(ctx, keys.Group("text"), "no set", 0))
				redistest.Must(t, client.HSet(ctx, keys.Task("lost"), "state", "aggregating", "group", "text"))
				ids := []string{"text", "stateless", "retry", "archived", "lost", "scheduled"}
				want := []script.Code{script.CodeGone, script.CodeGone, script.CodeOK, script.CodeOK, script.CodeBroken, script.CodeOK}
				switch verb {
				case inspect.Run:
					want[3] = script.CodeBroken
				case inspect.Archive:
					want[3] = script.CodeUnfit
				}
				codes, err := apply(b, verb, ids...)
				if err != nil || !slices.Equal(codes, want) {
					t.Errorf("codes %v, error %v; want %v", codes, err, want)
				}
			})
		})
	}
}

func TestArchiveTasksTrims(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		b.Archive.Tasks = 5
		for i := range 20 {
			r.Make(t, redistest.Lock(redistest.NewTask(t, "q", fmt.Sprint("t", i)), fmt.Sprint(i)))
		}
		if n, limits, err := in.Archived(ctx, "q"); err != nil || n != 0 || limits.Tasks != 5 {
			t.Errorf("%d archived, limits %+v, error %v; want 0 of 5", n, limits, err)
		}
		var done inspect.Changed
		err := in.ChangeAll(ctx, inspect.Change{Verb: inspect.Archive, Queue: "q", From: wire.StatePending, Done: &done})
		if err != nil || done.Tasks() != 20 || done.Discarded() != 15 {
			t.Errorf("archived %d and discarded %d, error %v; want 20 and 15", done.Tasks(), done.Discarded(), err)
		}
		if n, limits, err := in.Archived(ctx, "q"); err != nil || n != 5 || limits.Tasks != 5 {
			t.Errorf("%d archived, limits %+v, error %v; want 5 of 5", n, limits, err)
		}
		keys := r.Client().Keys(ctx, b.Keys("q").TaskPrefix()+"*").Val()
		if size := r.Client().ZCard(ctx, b.Keys("q").Archived()).Val(); size != 5 || len(keys) != 5 {
			t.Errorf("the archive holds %d, and %d tasks exist; want 5", size, len(keys))
		}
	})
}

func TestRescheduleLeavesTheMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		marker := b.Keys("q").Marker()
		for i, id := range []string{"a", "b"} {
			task := redistest.NewTask(t, "q", id)
			task.ProcessAt = time.Now().Add(time.Duration(i+1) * time.Hour).Unix()
			r.Make(t, task)
		}
		for _, tt := range []struct {
			id   string
			in   time.Duration
			want int64
		}{{"b", 3 * time.Hour, 0}, {"b", time.Minute, 1}, {"a", 2 * time.Minute, 0}, {"a", time.Second, 1}} {
			redistest.Must(t, r.Client().Del(ctx, marker))
			ch := inspect.Change{Verb: inspect.Reschedule, Queue: "q", At: time.Now().Add(tt.in).Unix()}
			if _, err := inspect.New(b).Change(ctx, ch, []string{tt.id}); err != nil {
				t.Fatal(err)
			}
			if got := r.Client().Exists(ctx, marker).Val(); got != tt.want {
				t.Errorf("%s in %v: %d markers, want %d", tt.id, tt.in, got, tt.want)
			}
		}
	})
}

func TestDiscard(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "a"), "a"))
		f := r.Fetch(t, "q", 1)
		b := r.Broker()
		for _, want := range []script.Code{script.CodeOK, script.CodeGone} {
			if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Discard}); code != want {
				t.Errorf("code %d, want %d", code, want)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
			Q:failed = 1
			Q:failed:today = 1 ttl 2160h0m0s`)
	})
}

func TestUpdateMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		seedChanges(t, r)
		for id, want := range map[string]error{
			"scheduled": nil, "nobody": script.ErrTaskGone, "active": script.ErrTaskActive, "pending": script.ErrTaskUnfit, "stagedG": script.ErrTaskUnfit,
			"retry": script.ErrTaskUnfit, "archived": script.ErrTaskUnfit,
		} {
			edit := func(m *wire.TaskMessage) error { m.Payload = []byte("new"); return nil }
			if err := in.UpdateMessage(ctx, "q", id, edit); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		}
		info, err := in.TaskInfo(ctx, "q", "scheduled")
		if err != nil || string(info.Message.Payload) != "new" {
			t.Errorf("%+v, error %v", info, err)
		}
		if got := r.Client().Get(ctx, "asynq:{q}:unique:test:scheduled").Val(); got != "scheduled" {
			t.Errorf("the lock is held by %q", got)
		}

		// A concurrent edit wins, once.
		edits := 0
		err = in.UpdateMessage(ctx, "q", "scheduled", func(m *wire.TaskMessage) error {
			if edits++; edits == 1 {
				other := redistest.Message("q", "scheduled")
				other.Type = "changed"
				redistest.Must(t, r.Client().HSet(ctx, b.Keys("q").Task("scheduled"), "msg", redistest.Encode(t, other)))
			}
			m.Payload = []byte("newer")
			return nil
		})
		info, _ = in.TaskInfo(ctx, "q", "scheduled")
		if err != nil || edits != 2 || info.Message.Type != "changed" || string(info.Message.Payload) != "newer" {
			t.Errorf("%d edits, %+v, error %v", edits, info.Message, err)
		}
		fails := errors.New("fails")
		if err := in.UpdateMessage(ctx, "q", "scheduled", func(*wire.TaskMessage) error { return fails }); !errors.Is(err, fails) {
			t.Errorf("got %v", err)
		}
		err = inspect.New(redistest.RepeatingBroker(t, r)).UpdateMessage(ctx, "q", "scheduled", func(m *wire.TaskMessage) error { m.Payload = nil; return nil })
		if err != nil {
			t.Errorf("repeated: %v", err)
		}
		redistest.Must(t, r.Client().HSet(ctx, b.Keys("q").Task("scheduledG"), "msg", "\xff"))
		if err := in.UpdateMessage(ctx, "q", "scheduledG", func(*wire.TaskMessage) error { return nil }); err == nil {
			t.Error("a message that cannot be read was changed")
		}
		if codes, err := apply(b, inspect.Delete, "scheduledG"); err != nil || codes[0] != script.CodeOK {
			t.Errorf("%v, %v", codes, err)
		}
	})
}
