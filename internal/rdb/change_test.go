package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// changeFunc is RunTasks and the like.
type changeFunc func(ctx context.Context, queue string, ids []string) ([]rdb.Code, error)

// reschedule is RescheduleTasks to a time in an hour.
func reschedule(b *rdb.Broker) changeFunc {
	return func(ctx context.Context, queue string, ids []string) ([]rdb.Code, error) {
		return b.RescheduleTasks(ctx, queue, ids, time.Now().Add(time.Hour).Unix())
	}
}

// changes are the changes by name.
func changes(b *rdb.Broker) map[string]changeFunc {
	return map[string]changeFunc{"run": b.RunTasks, "archive": b.ArchiveTasks, "delete": b.DeleteTasks, "reschedule": reschedule(b)}
}

// allStates are the tasks that seedChanges makes: each with a lock; the states with a G are of tasks with group g.
var allStates = []string{
	"pending", "active", "scheduled", "retry", "archived", "completed", "scheduledG", "retryG", "archivedG", "completedG", "aggregatingG", "stagedG",
}

// seedChanges makes a task in each state, whose ID is the state, in queue q.
func seedChanges(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, b := context.Background(), r.Broker()
	keys := b.Keys("q")
	later := time.Now().Add(100 * time.Second).Unix()
	start := func(id string) *rdb.NewTask {
		task := lock(redistest.NewTask(t, "q", id), id)
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
		if code := settle(t, b, rdb.Settlement{ID: id, Token: f.Token, Outcome: outcome, Delay: time.Minute, Retention: 60}); code != rdb.CodeOK {
			t.Fatalf("%v: code %d", outcome, code)
		}
		must(t, r.Client().HDel(ctx, keys.Task(id), "settled"))
		if strings.HasSuffix(id, "G") {
			must(t, r.Client().HSet(ctx, keys.Task(id), "group", "g"))
		}
	}
	r.Make(t, start("active"))
	r.Fetch(t, "q", 1)
	must(t, r.Client().Del(ctx, keys.Marker()))
	for _, id := range []string{"scheduled", "scheduledG"} {
		task := start(id)
		task.ProcessAt = later
		r.Make(t, task)
	}
	r.Make(t, start("pending"), start("aggregatingG"), start("stagedG"))
	set := keys.AggregationSet("g", "u")
	must(t, r.Client().ZRem(ctx, keys.Group("g"), "stagedG"))
	must(t, r.Client().ZAdd(ctx, set, redis.Z{Score: float64(time.Now().Unix()), Member: "stagedG"}))
	must(t, r.Client().ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: float64(later), Member: set}))
	must(t, r.Client().Del(ctx, keys.Marker()))
}

// Each change of a task in each state, and what is in Redis about it afterwards.
func TestChanges(t *testing.T) {
	const (
		ready   = "Q:pending = [ID]\nQ:marker = [1] ttl 1m0s\nQ:t:ID = {msg:test(payload) pending_since:now state:pending%s}"
		grouped = "Q:g:g = {ID:now}\nQ:groups = {g}\nQ:t:ID = {group:g msg:test(payload) state:aggregating%s}"
		shelved = "Q:archived = {ID:now}\nQ:t:ID = {%smsg:test(payload) state:archived%s}"
		later   = "Q:%s = {ID:now+1h0m0s}\nQ:marker = [1] ttl 1m0s\nQ:t:ID = {%smsg:test(payload) state:%s%s}"
	)
	tests := map[string]map[string]struct {
		code rdb.Code
		want string
	}{
		"run": {
			"pending": {rdb.CodeUnfit, ""}, "active": {rdb.CodeActive, ""}, "stagedG": {rdb.CodeStaged, ""},
			"scheduled": {rdb.CodeOK, ready}, "retry": {rdb.CodeOK, ready}, "archived": {rdb.CodeOK, ready}, "completed": {rdb.CodeOK, ready},
			"scheduledG": {rdb.CodeOK, grouped}, "retryG": {rdb.CodeOK, grouped}, "archivedG": {rdb.CodeOK, grouped},
			"completedG":   {rdb.CodeOK, grouped},
			"aggregatingG": {rdb.CodeOK, strings.Replace(ready, "{msg", "{group:g msg", 1)},
		},
		"archive": {
			"active": {rdb.CodeActive, ""}, "stagedG": {rdb.CodeStaged, ""}, "archived": {rdb.CodeUnfit, ""}, "completed": {rdb.CodeUnfit, ""},
			"archivedG": {rdb.CodeUnfit, ""}, "completedG": {rdb.CodeUnfit, ""},
			"pending": {rdb.CodeOK, shelved}, "scheduled": {rdb.CodeOK, shelved}, "retry": {rdb.CodeOK, shelved},
			"scheduledG": {rdb.CodeOK, shelved}, "retryG": {rdb.CodeOK, shelved}, "aggregatingG": {rdb.CodeOK, shelved},
		},
		"delete": {"active": {rdb.CodeActive, ""}, "stagedG": {rdb.CodeStaged, ""}},
		"reschedule": {
			"active": {rdb.CodeActive, ""}, "stagedG": {rdb.CodeStaged, ""},
			"pending": {rdb.CodeOK, later}, "scheduled": {rdb.CodeOK, later}, "retry": {rdb.CodeOK, later}, "archived": {rdb.CodeOK, later},
			"completed": {rdb.CodeOK, later}, "scheduledG": {rdb.CodeOK, later}, "retryG": {rdb.CodeOK, later},
			"archivedG": {rdb.CodeOK, later}, "completedG": {rdb.CodeOK, later}, "aggregatingG": {rdb.CodeOK, later},
		},
	}
	for name, states := range tests {
		for _, id := range allStates {
			t.Run(name+" "+id, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					seedChanges(t, r)
					b := r.Broker()
					tt := states[id]
					change := func() {
						codes, err := changes(b)[name](context.Background(), "q", []string{id})
						if err != nil || !slices.Equal(codes, []rdb.Code{tt.code}) {
							t.Errorf("codes %v, error %v; want %v", codes, err, tt.code)
						}
					}
					if tt.code != rdb.CodeOK {
						unchanged(t, r, "a refused change", change)
						return
					}
					for _, other := range allStates {
						if other != id && other != "active" && other != "stagedG" {
							if _, err := b.DeleteTasks(context.Background(), "q", []string{other}); err != nil {
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
					wantDump(t, r, want+"\nQ:groups_due = {g:now} ttl 1h0m0s\n"+strings.Join(others, "\n"))
				})
			})
		}
	}
}

// othersThan is what a dump says of the tasks that changes refuse, and of the queue itself.
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

// A repeated call is answered as the first one was, and changes nothing more.
func TestChangesRepeated(t *testing.T) {
	for name := range changes(nil) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				seedChanges(t, r)
				want := []rdb.Code{rdb.CodeOK, rdb.CodeActive, rdb.CodeStaged, rdb.CodeOK, rdb.CodeGone}
				codes, err := changes(repeatingBroker(t, r))[name](context.Background(), "q",
					[]string{"scheduled", "active", "stagedG", "retryG", "nobody"})
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
		b, recorded := recordingBroker(t, r)
		ids := r.Enqueue(t, "q", 1300)
		mixed := append(slices.Clone(ids[:1200]), "nobody", ids[7], ids[1199])
		codes, err := b.ArchiveTasks(ctx, "q", mixed)
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range codes {
			want := rdb.CodeOK
			switch {
			case i == 1200:
				want = rdb.CodeGone
			case i == 1201:
				want = rdb.CodeUnfit // of another call
			case i == 1202:
				want = rdb.CodeAlready
			}
			if code != want {
				t.Fatalf("code %d of %s, want %d", code, mixed[i], want)
			}
		}
		for _, call := range recorded.calls["archive_tasks"] {
			if len(call.keys) > 500+6 {
				t.Errorf("a call has %d keys", len(call.keys))
			}
		}
		if n := r.Client().LLen(ctx, b.Keys("q").Pending()).Val(); n != 100 {
			t.Errorf("%d tasks are left in pending, want 100", n)
		}
	})
}

// Tasks that are deep in a long list are searched for in calls of a bounded size. Those at its ends are not searched for, nor those that
// are near one that was found.
func TestChangesInALongList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := recordingBroker(t, r)
		r.AllowViolations()
		key := b.Keys("q").Pending()
		last, apart, middle, first := r.Enqueue(t, "q", 40), r.Enqueue(t, "q", 8), r.Enqueue(t, "q", 80), r.Enqueue(t, "q", 40)
		// IDs without a task in between: enqueueing so many would take long.
		filler := make([]string, 30_000)
		for i := range filler {
			filler[i] = fmt.Sprint("filler", i)
		}
		must(t, r.Client().Del(ctx, key))
		want := slices.Concat(filler, filler)
		list := slices.Concat(first, filler, filler, last)
		for n, id := range middle {
			list = slices.Insert(list, 20_000+100*n, id)
		}
		for n, id := range apart {
			list = slices.Insert(list, 500+7000*n, id)
		}
		for id := range slices.Chunk(list, 10_000) {
			must(t, r.Client().RPush(ctx, key, id))
		}
		for name, tt := range map[string]struct {
			ids   []string
			calls int
		}{
			"last": {last, 1}, "first": {first, 1}, "middle": {middle, 1}, "apart": {apart, 2},
		} {
			before := len(recorded.calls["delete_tasks"])
			codes, err := b.DeleteTasks(ctx, "q", tt.ids)
			if err != nil || slices.ContainsFunc(codes, func(c rdb.Code) bool { return c != rdb.CodeOK }) {
				t.Errorf("%s: codes %v, error %v", name, codes, err)
			}
			if calls := len(recorded.calls["delete_tasks"]) - before; calls != tt.calls {
				t.Errorf("%s: %d calls, want %d", name, calls, tt.calls)
			}
		}
		if got := r.Client().LRange(ctx, key, 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("%d tasks are left, want %d in the order that they were in", len(got), len(want))
		}
	})
}

// IDs of which no task is left, as a second change of the same tasks finds them, are no reason to search a long list for each.
func TestChangesOfTasksThatAreGoneFromALongList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		key := b.Keys("q").Pending()
		r.Enqueue(t, "q", 1)
		filler := make([]string, 50_000)
		for i := range filler {
			filler[i] = fmt.Sprint("filler", i)
		}
		for id := range slices.Chunk(filler, 10_000) {
			must(t, r.Client().RPush(ctx, key, id))
		}
		before := searches(ctx, r)
		gone := make([]string, 250)
		for i := range gone {
			gone[i] = fmt.Sprint("gone", i)
		}
		codes, err := b.DeleteTasksIn(ctx, "q", wire.StatePending, "", slices.Concat(gone, filler[20_000:20_250]))
		if err != nil || slices.ContainsFunc(codes, func(c rdb.Code) bool { return c != rdb.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if n := searches(ctx, r) - before; n > 10 {
			t.Errorf("the list was searched %d times", n)
		}
		codes, err = b.DeleteTasksIn(ctx, "q", wire.StatePending, "", filler[20_000:20_250])
		if err != nil || slices.ContainsFunc(codes, func(c rdb.Code) bool { return c != rdb.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if got, want := r.Client().LLen(ctx, key).Val(), int64(1+50_000-250); got != want {
			t.Errorf("%d entries are left, want %d: IDs without a task that are there are taken out", got, want)
		}
		before = searches(ctx, r)
		codes, err = b.DeleteTasksIn(ctx, "q", wire.StatePending, "", slices.Repeat(filler[49_990:49_991], 250))
		if err != nil || slices.ContainsFunc(codes, func(c rdb.Code) bool { return c != rdb.CodeGone }) {
			t.Errorf("codes %v, error %v", codes, err)
		}
		if n := searches(ctx, r) - before; n > 1 {
			t.Errorf("the list was searched %d times for one ID", n)
		}
	})
}

// searches is how many LREM and LPOS there have been; 0 where Redis does not tell.
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

// What is broken about one task, or what it needs, holds up no other.
func TestChangesOfBrokenTasks(t *testing.T) {
	for name := range changes(nil) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, client := context.Background(), r.Client()
				seedChanges(t, r)
				b := r.Broker()
				keys := b.Keys("q")
				must(t, client.Set(ctx, keys.Task("text"), "no hash", 0))
				must(t, client.HSet(ctx, keys.Task("stateless"), "msg", "m"))
				must(t, client.HSet(ctx, keys.Task("retry"), "msg", "\xff\xff", "unique_key", keys.Unique("list", nil)))
				must(t, client.LPush(ctx, keys.Unique("list", nil), "x"))
				must(t, client.HSet(ctx, keys.Task("archived"), "group", "text"))
				must(t, client.Set(ctx, keys.Group("text"), "no set", 0))
				must(t, client.HSet(ctx, keys.Task("lost"), "state", "aggregating", "group", "text"))
				ids := []string{"text", "stateless", "retry", "archived", "lost", "scheduled"}
				want := []rdb.Code{rdb.CodeGone, rdb.CodeGone, rdb.CodeOK, rdb.CodeOK, rdb.CodeBroken, rdb.CodeOK}
				switch name {
				case "run":
					want[3] = rdb.CodeBroken
				case "archive":
					want[3] = rdb.CodeUnfit
				}
				codes, err := changes(b)[name](ctx, "q", ids)
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
		b.LimitArchive(5)
		for i := range 20 {
			r.Make(t, lock(redistest.NewTask(t, "q", fmt.Sprint("t", i)), fmt.Sprint(i)))
		}
		n, err := b.ArchiveAllTasks(ctx, "q", wire.StatePending, "")
		if err != nil || n != 20 {
			t.Errorf("archived %d, error %v; want 20", n, err)
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
			must(t, r.Client().Del(ctx, marker))
			if _, err := b.RescheduleTasks(ctx, "q", []string{tt.id}, time.Now().Add(tt.in).Unix()); err != nil {
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
		r.Make(t, lock(redistest.NewTask(t, "q", "a"), "a"))
		f := r.Fetch(t, "q", 1)
		b := r.Broker()
		for _, want := range []rdb.Code{rdb.CodeOK, rdb.CodeGone} {
			if code := settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Discard}); code != want {
				t.Errorf("code %d, want %d", code, want)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
			Q:failed = 1
			Q:failed:today = 1 ttl 2160h0m0s`)
	})
}
