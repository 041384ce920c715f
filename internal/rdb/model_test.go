package rdb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// TestModel makes random transitions, and after each one compares everything that Redis holds with
// what a model says. The flags of rapid let it look longer: -rapid.checks=1000 runs, of
// -rapid.steps=100 transitions on average.
func TestModel(t *testing.T) {
	redistest.LimitChecks(t, 30)
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		redistest.LoadScripts(ctx, r.Broker())
		repeating := redistest.RepeatingBroker(t, r).Client()
		rapid.Check(t, func(rt *rapid.T) {
			if err := r.Client().FlushDB(ctx).Err(); err != nil {
				rt.Fatal(err)
			}
			newMachine(r, repeating).run(rt)
		})
	})
}

// machine makes the same transitions in Redis and in the model.
type machine struct {
	ctx    context.Context // of one run
	client redis.UniversalClient
	broker *rdb.Broker
	again  *rdb.Broker // sends every call twice
	model  *model

	steps   int              // that were checked
	serial  int              // makes names that are new
	tokens  []string         // of all fetches
	created []rdb.NewTask    // that may be made again
	settled []rdb.Settlement // that may be repeated
	sets    []rdb.StagedSet  // of all calls, held or not
}

func newMachine(r *redistest.Redis, repeating redis.UniversalClient) *machine {
	b := newModelBroker(r.Client())
	return &machine{
		ctx: context.Background(), client: r.Client(), broker: b, again: newModelBroker(repeating), model: newModel(b, "q", "q:2"),
		tokens: []string{"none"},
	}
}

func newModelBroker(client redis.UniversalClient) *rdb.Broker {
	b := rdb.New(client, "")
	b.Archive.Tasks = modelArchive
	return b
}

func (m *machine) run(t *rapid.T) {
	actions := map[string]func(*rapid.T){
		"enqueue":      m.enqueue,
		"fetch":        func(t *rapid.T) { m.roundTrip(t, 0, 0, 2) },
		"settle":       func(t *rapid.T) { m.roundTrip(t, 0, 8, 0) },
		"roundTrip":    func(t *rapid.T) { m.roundTrip(t, 2, 4, 2) },
		"extend":       m.extend,
		"writeResults": m.writeResults,
		"recover":      m.recover,
		"forward":      m.forward,
		"clean":        m.clean,
		"passTime":     m.passTime,
		"byOthers":     m.byOthers,

		"enqueueGrouped": m.enqueueGrouped,
		"stage":          m.stage,
		"commit":         m.commit,
		"returnToGroup":  m.returnToGroup,
		"useSets":        m.useSets,
		"sweepGroups":    m.sweepGroups,
		"passGroupTime":  m.passGroupTime,

		"change":        m.change,
		"changeAll":     m.changeAll,
		"updateMessage": m.updateMessage,
		"removeQueue":   m.removeQueue,
		"inspect":       m.inspect,
		"recoverBroken": m.recoverBroken,
	}
	for name, action := range actions {
		actions[name] = func(t *rapid.T) {
			m.model.begin()
			action(t)
		}
	}
	actions[""] = m.check
	t.Repeat(actions)
}

// check compares Redis with the model.
func (m *machine) check(t *rapid.T) {
	got, err := takeSnapshot(m.ctx, m.client)
	if err != nil {
		t.Fatal(err)
	}
	m.takeMarkers(t, got)
	m.model.adopt(got, time.Now().Unix())
	if want := m.model.snapshot(m.broker.Namespace()); !want.equal(got) {
		t.Fatalf("Redis does not hold what the model says (-model +redis):\n%s", cmp.Diff(want, got))
	}
	found, err := rdbcheck.Check(m.ctx, m.client, m.broker.Namespace())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Errorf("broken invariant: %v", v)
	}
	if m.steps++; m.steps%10 == 0 {
		m.diagnose(t)
	}
	m.ageArchives(t)
}

// takeMarkers takes the markers, as idle servers would, out of Redis and the snapshot. Out of the
// latter it takes also the answers that are kept for calls that are sent again, because no task
// depends on them.
func (m *machine) takeMarkers(t *rapid.T, s snapshot) {
	var taken []string
	for _, q := range m.model.queues {
		maps.DeleteFunc(s, func(key string, _ map[string]string) bool {
			return strings.HasPrefix(key, q.keys.IdempotencyRecord(""))
		})
		marker := q.keys.Marker()
		switch left := s[marker]; {
		case left != nil:
			if len(left) != 1 {
				t.Errorf("%d markers of %s", len(left), q.keys.Name)
			}
			taken = append(taken, marker)
			delete(s, marker)
		case q.marked:
			t.Errorf("no marker of %s wakes a server", q.keys.Name)
		}
	}
	if len(taken) > 0 {
		m.must(t, m.client.Del(m.ctx, taken...))
	}
}

// ageArchives lets time pass for archives that were added to: which tasks a trim finds to be the
// oldest depends on seconds.
func (m *machine) ageArchives(t *rapid.T) {
	for _, q := range m.model.queues {
		archived := q.in(wire.StateArchived)
		if len(archived) == 0 || archived[len(archived)-1].at.unix <= m.model.now-10 {
			continue
		}
		for _, task := range archived {
			m.moveTime(t, q, task, task.at.unix-60)
		}
	}
}

// moveTime changes the time of a task that is not pending.
func (m *machine) moveTime(t *rapid.T, q *modelQueue, task *modelTask, at int64) {
	key, id := q.timeOf(task)
	task.at = moment{unix: at, exact: true}
	m.must(t, m.client.ZAddXX(m.ctx, key, redis.Z{Score: float64(at), Member: id}))
}

func (m *machine) must(t *rapid.T, cmd redis.Cmder) {
	if err := cmd.Err(); err != nil {
		t.Fatal(err)
	}
}

// newName returns a name that nothing has yet.
func (m *machine) newName(prefix string) string {
	m.serial++
	return fmt.Sprint(prefix, m.serial)
}

// expect compares an answer with the model's.
func expect(t *rapid.T, what string, want, got any) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-model +broker):\n%s", what, diff)
	}
}

// pick draws one of some values.
func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

// oneIn is true once in about n times.
func oneIn(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == n }

// anyBroker draws a broker. One loses the first reply to each call.
func (m *machine) anyBroker(t *rapid.T) *rdb.Broker {
	if oneIn(t, 3, "reply lost") {
		return m.again
	}
	return m.broker
}

func (m *machine) pickQueue(t *rapid.T) *modelQueue {
	return m.model.queues[rapid.IntRange(0, len(m.model.queues)-1).Draw(t, "queue")]
}

// pickTask draws the ID of a task, mostly of an active one, or one that does not exist, and a
// token, mostly the right one.
func (m *machine) pickTask(t *rapid.T, q *modelQueue) (id, token string) {
	ids := append(q.ids(), "none")
	if len(q.active) > 0 && !oneIn(t, 5, "in any state") {
		ids = q.active
	}
	id = pick(t, "id", ids...)
	task := q.tasks[id]
	if task == nil || task.token == "" || oneIn(t, 5, "any token") {
		return id, pick(t, "token", m.tokens...)
	}
	return id, task.token
}

// pickMessage draws what an attempt leaves as the message of a task, or nil.
func (m *machine) pickMessage(t *rapid.T, q *modelQueue, id string) []byte {
	if oneIn(t, 4, "message as it is") {
		return nil
	}
	return m.newMessage(t, q, id)
}

func (m *machine) newMessage(t *rapid.T, q *modelQueue, id string) []byte {
	encoded, err := (&wire.TaskMessage{Type: m.newName("type"), ID: id, Queue: q.keys.Name}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// recent returns the newest of the calls made, newest first.
func recent[T any](calls []T) []T {
	calls = slices.Clone(calls[max(len(calls)-8, 0):])
	slices.Reverse(calls)
	return calls
}

// inCalls divides the items of a batch as the broker does: into script calls of one target, in the
// order of their first items.
func inCalls[T any, K comparable](items []T, target func(T) K) (calls [][]T) {
	index := make(map[K]int)
	for _, item := range items {
		i, ok := index[target(item)]
		if !ok {
			i, calls = len(calls), append(calls, nil)
			index[target(item)] = i
		}
		calls[i] = append(calls[i], item)
	}
	return calls
}
