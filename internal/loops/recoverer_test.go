package loops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

var errLease = errors.New("lease expired")

// lease is a task of a leases broker.
type lease struct {
	id, token string
	message   []byte
	foreign   bool // its lease has expired, but it must not be recovered
	extended  bool // between the scan and the recovery
	ghost     bool // no active task has it
}

// leases is a RecoverBroker: the expired leases by queue, earliest first.
type leases struct {
	t         *testing.T
	queues    map[string][]*lease
	next      map[string]time.Duration
	looking   error
	most      int              // entries per scan, as if limited by bytes; 0: no limit
	broken    map[string]error // the error of a recovery
	replyLost bool             // of recoveries
	pages     []string
	recovery  map[string]*rdb.Settlement // by ID
	pending   []string                   // next task first
}

func newLeases(t *testing.T) *leases {
	return &leases{
		t: t, queues: make(map[string][]*lease), next: make(map[string]time.Duration),
		broken: make(map[string]error), recovery: make(map[string]*rdb.Settlement),
	}
}

func (b *leases) add(queue string, msg *wire.TaskMessage) *lease {
	b.t.Helper()
	encoded, err := msg.Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	l := &lease{id: msg.ID, token: "token of " + msg.ID, message: encoded}
	b.queues[queue] = append(b.queues[queue], l)
	return l
}

// addSome adds tasks with these IDs.
func (b *leases) addSome(queue string, ids ...string) {
	for _, id := range ids {
		b.add(queue, &wire.TaskMessage{Type: "test", ID: id, Queue: queue, MaxRetry: 3})
	}
}

func (b *leases) Filled(_ context.Context, queues []string, _ ...func(wire.Queue) string) ([]string, error) {
	return queues, nil
}

func (b *leases) Expired(_ context.Context, queue string, skip, n int) ([]rdb.Expired, int, time.Duration, error) {
	b.pages = append(b.pages, fmt.Sprintf("%s from %d", queue, skip))
	if b.looking != nil {
		return nil, 0, 0, b.looking
	}
	all := b.queues[queue]
	if b.most > 0 {
		n = b.most
	}
	page := all[min(skip, len(all)):min(skip+n, len(all))]
	var expired []rdb.Expired
	for _, l := range page {
		if !l.foreign {
			expired = append(expired, rdb.Expired{ID: l.id, Token: l.token, Message: slices.Clone(l.message)})
		}
	}
	next, ok := b.next[queue]
	if !ok {
		next = -1
	}
	if b.most > 0 && skip+n < len(all) {
		next = 0
	}
	return expired, len(page), next, nil
}

func (b *leases) Recover(ctx context.Context, items []*rdb.Settlement) (name string) {
	b.RecoverAgain(ctx, "recovery", items)
	return "recovery"
}

func (b *leases) RecoverAgain(_ context.Context, name string, items []*rdb.Settlement) {
	if name != "recovery" {
		b.t.Errorf("repeated with the name %q", name)
	}
	for _, item := range items {
		queue := item.Queue
		if b.recovery[item.ID] == item { // repeated
			item.Code, item.Err = script.CodeAlready, b.broken[item.ID]
			continue
		}
		i := slices.IndexFunc(b.queues[queue], func(l *lease) bool { return l.id == item.ID })
		if i < 0 || b.queues[queue][i].token != item.Token {
			b.t.Errorf("%s has no lease with the token %q", item.ID, item.Token)
			continue
		}
		l := b.queues[queue][i]
		switch {
		case b.replyLost:
			b.recovery[item.ID], item.Err = item, errCut
		case b.broken[item.ID] != nil:
			item.Err = b.broken[item.ID]
			continue
		case l.extended:
			item.Code = script.CodeLost
			continue
		case l.ghost:
			item.Code = script.CodeGone
		default:
			b.recovery[item.ID] = item
			if item.Outcome != rdb.Archive {
				b.pending = slices.Insert(b.pending, 0, item.ID)
			}
		}
		b.queues[queue] = slices.Delete(b.queues[queue], i, i+1)
	}
}

type testRecoverer struct {
	*Recoverer
	*leases
	log      logbook
	reported []string
}

const recoverInterval = 10 * time.Second

func newTestRecoverer(t *testing.T, queues ...string) *testRecoverer {
	r := &testRecoverer{leases: newLeases(t)}
	r.Recoverer = &Recoverer{
		Broker: r.leases, Queues: queues, Interval: recoverInterval, Log: r.log.logger(),
		Expired:   errLease,
		IsFailure: func(err error) bool { return err == errLease }, //nolint:errorlint // Exactly this one.
		Recovered: func(queue string, msg *wire.TaskMessage) {
			r.reported = append(r.reported, queue+" "+msg.ID)
		},
	}
	return r
}

func (r *testRecoverer) message(id string) *wire.TaskMessage {
	r.t.Helper()
	item := r.recovery[id]
	if item == nil {
		r.t.Fatalf("%s was not recovered", id)
	}
	msg, err := wire.DecodeTaskMessage(item.Message)
	if err != nil {
		r.t.Fatal(err)
	}
	return msg
}

func TestRecovererRecoversTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecoverer(t, "p", "q")
		r.add("p", &wire.TaskMessage{Type: "test", ID: "a", Retried: 1, MaxRetry: 3, LastErr: "another"})
		r.add("q", &wire.TaskMessage{Type: "test", ID: "last", Retried: 3, MaxRetry: 3})
		r.add("q", &wire.TaskMessage{Type: "test", ID: "only", MaxRetry: 0})
		mustTick(t, r.Tick, recoverInterval)
		for id, want := range map[string]struct {
			archive bool
			retried int
		}{"a": {false, 2}, "last": {true, 3}, "only": {true, 0}} {
			msg := r.message(id)
			if item := r.recovery[id]; (item.Outcome == rdb.Archive) != want.archive || !item.Failed {
				t.Errorf("%s: %+v", id, item)
			}
			if msg.Retried != want.retried || msg.LastErr != errLease.Error() || msg.LastFailedAt != time.Now().Unix() || msg.Type != "test" {
				t.Errorf("%s: %+v", id, msg)
			}
		}
		slices.Sort(r.reported)
		if want := []string{"p a", "q last", "q only"}; !slices.Equal(r.reported, want) {
			t.Errorf("reported %q, want %q", r.reported, want)
		}
		r.log.mustHave(t, 1, "recovered a task", "queue=p", "task=a", "retried=2", "archived=false")
		r.log.mustHave(t, 2, "recovered a task", "archived=true")
	})
}

func TestRecovererHonorsIsFailure(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.IsFailure = func(error) bool { return false }
	r.add("q", &wire.TaskMessage{ID: "a", Retried: 3, MaxRetry: 3})
	mustTick(t, r.Tick, recoverInterval)
	if item := r.recovery["a"]; item.Failed || item.Outcome == rdb.Archive || item.Message != nil {
		t.Errorf("item %+v", item)
	}
	if len(r.reported) != 1 {
		t.Errorf("reported %q", r.reported)
	}
}

func TestRecovererKeepsTheOrder(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.addSome("q", "first", "second", "third")
	mustTick(t, r.Tick, recoverInterval)
	if want := []string{"first", "second", "third"}; !slices.Equal(r.pending, want) {
		t.Errorf("%q are next, want %q", r.pending, want)
	}
}

func TestRecovererArchivesUnreadableTasks(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.add("q", &wire.TaskMessage{ID: "bad"}).message = []byte("\xff")
	other := r.add("q", &wire.TaskMessage{ID: "mistaken"})
	other.message = r.add("q", &wire.TaskMessage{ID: "good", MaxRetry: 3}).message
	mustTick(t, r.Tick, recoverInterval)
	for _, id := range []string{"bad", "mistaken"} {
		if item := r.recovery[id]; item == nil || item.Outcome != rdb.Archive || item.Message != nil {
			t.Errorf("%s: %+v", id, item)
		}
		r.log.mustHave(t, 1, "unreadable", "task="+id)
	}
	if want := []string{"q good"}; !slices.Equal(r.reported, want) {
		t.Errorf("reported %q, want %q", r.reported, want)
	}
}

func TestRecovererRemovesLeasesWithoutTask(t *testing.T) {
	r := newTestRecoverer(t, "q")
	ghost := r.add("q", &wire.TaskMessage{ID: "ghost"})
	ghost.message, ghost.ghost = nil, true
	r.addSome("q", "a")
	mustTick(t, r.Tick, recoverInterval)
	r.log.mustHave(t, 1, "removed a lease", "task=ghost", "queue=q")
	if want := []string{"q a"}; !slices.Equal(r.reported, want) || len(r.queues["q"]) != 0 {
		t.Errorf("reported %q, want %q; %d leases are left", r.reported, want, len(r.queues["q"]))
	}
}

// Several servers may see the same lease expire. Only the one that recovers the task reports it.
func TestRecovererReportsOnlyItsOwn(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.addSome("q", "a", "b")
	r.queues["q"][0].extended = true
	mustTick(t, r.Tick, recoverInterval)
	if want := []string{"q b"}; !slices.Equal(r.reported, want) {
		t.Errorf("reported %q, want %q", r.reported, want)
	}
	r.log.mustHave(t, 1, "recovered a task")
}

// A page starts where the last one ended, minus the recovered tasks.
func TestRecovererPages(t *testing.T) {
	r := newTestRecoverer(t, "p", "q")
	for i := range 250 {
		l := r.add("q", &wire.TaskMessage{ID: fmt.Sprint(i), MaxRetry: 3})
		l.foreign = i%10 == 0
		l.extended = i%10 == 1
	}
	r.addSome("p", "a")
	mustTick(t, r.Tick, recoverInterval)
	if want := []string{"p from 0", "q from 0", "q from 20", "q from 40"}; !slices.Equal(r.pages, want) {
		t.Errorf("scanned %q, want %q", r.pages, want)
	}
	if len(r.reported) != 201 || len(r.queues["q"]) != 50 {
		t.Errorf("%d recovered, %d leases are left", len(r.reported), len(r.queues["q"]))
	}
}

// A scan that ends before its page is full, because of the size of the messages, is not the last
// one.
func TestRecovererContinuesAfterAShortScan(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.most = 2
	r.addSome("q", "a", "b", "c", "d", "e")
	r.queues["q"][1].extended = true
	mustTick(t, r.Tick, recoverInterval)
	if want := []string{"q from 0", "q from 1", "q from 1"}; !slices.Equal(r.pages, want) || len(r.reported) != 4 {
		t.Errorf("scanned %q, want %q; recovered %d", r.pages, want, len(r.reported))
	}
}

func TestRecovererSleepsUntilALeaseCanEnd(t *testing.T) {
	r := newTestRecoverer(t, "p", "q")
	r.next["p"], r.next["q"] = 8*time.Second, 3*time.Second
	mustTick(t, r.Tick, 4*time.Second)
	r.next["q"] = time.Hour
	mustTick(t, r.Tick, 9*time.Second)
	r.next["p"] = time.Hour
	mustTick(t, r.Tick, recoverInterval)
	r.next["p"] = 0
	mustTick(t, r.Tick, time.Second)
}

func TestRecovererFails(t *testing.T) {
	r := newTestRecoverer(t, "p", "q")
	r.addSome("p", "a", "b")
	r.addSome("q", "c")
	r.broken["a"] = errBroken
	if _, err := r.Tick(context.Background()); !errors.Is(err, errBroken) {
		t.Errorf("returned %v", err)
	}
	if want := []string{"p b", "q c"}; !slices.Equal(r.reported, want) {
		t.Errorf("reported %q, want %q: a broken task must not block others", r.reported, want)
	}
	r.looking = errCut
	if _, err := r.Tick(context.Background()); !errors.Is(err, errCut) {
		t.Errorf("returned %v", err)
	}
}

func TestRecovererStops(t *testing.T) {
	r := newTestRecoverer(t, "q")
	for i := range 250 {
		r.addSome("q", fmt.Sprint(i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Tick(ctx); err != nil {
		t.Error(err)
	}
	if len(r.pages) != 1 {
		t.Errorf("continued after its context ended: %q", r.pages)
	}
}

// An error text that cannot be encoded must not prevent the recovery of a task.
func TestRecovererCannotEncode(t *testing.T) {
	r := newTestRecoverer(t, "q")
	r.Recoverer.Expired = errors.New("\xff")
	r.IsFailure = func(error) bool { return true }
	r.addSome("q", "a")
	mustTick(t, r.Tick, recoverInterval)
	if item := r.recovery["a"]; item == nil || !item.Failed || item.Message != nil {
		t.Errorf("item %+v", item)
	}
}

func TestRecovererReportsArchivedTasks(t *testing.T) {
	r := newTestRecoverer(t, "q")
	var archived []string
	r.Archived = func(_ context.Context, queue string, msg *wire.TaskMessage, err error) {
		archived = append(archived, queue+" "+msg.ID+": "+err.Error())
	}
	r.add("q", &wire.TaskMessage{ID: "bad", Queue: "q"}).message = []byte("\xff")
	r.add("q", &wire.TaskMessage{ID: "last", Queue: "q"})
	r.add("q", &wire.TaskMessage{ID: "taken", Queue: "q"}).extended = true
	r.addSome("q", "again")
	mustTick(t, r.Tick, recoverInterval)
	slices.Sort(archived)
	if len(archived) != 2 || !strings.HasPrefix(archived[0], "q bad: wire: ") || archived[1] != "q last: "+errLease.Error() {
		t.Errorf("archived %q", archived)
	}
}

// A task may be archived although the reply was lost: the call is repeated until there is one.
func TestRecovererRepeatsLostCalls(t *testing.T) {
	r := newTestRecoverer(t, "q")
	archived := 0
	r.Archived = func(context.Context, string, *wire.TaskMessage, error) { archived++ }
	r.add("q", &wire.TaskMessage{ID: "last", Queue: "q"})
	r.addSome("q", "again")
	r.replyLost = true
	if _, err := r.Tick(context.Background()); !errors.Is(err, errCut) || archived > 0 {
		t.Errorf("returned %v, %d tasks archived", err, archived)
	}
	r.replyLost = false
	r.broken["last"] = errCut
	if _, err := r.Tick(context.Background()); !errors.Is(err, errCut) || archived > 0 {
		t.Errorf("returned %v, %d tasks archived", err, archived)
	}
	delete(r.broken, "last")
	for range 2 {
		if mustTick(t, r.Tick, recoverInterval); archived != 1 {
			t.Errorf("%d tasks archived, want 1", archived)
		}
	}
}
