package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// idle returns a demo without running servers, on a separate Redis.
func idle(t *testing.T) *Demo {
	t.Helper()
	mini := miniredis.RunT(t)
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	d := &Demo{inspector: asynq.NewInspector(redis), enqueue: asynq.NewClient(redis)}
	t.Cleanup(func() { _, _ = d.inspector.Close(), d.enqueue.Close() })
	return d
}

// The seed determines the mix, which contains all kinds.
func TestMix(t *testing.T) {
	t.Parallel()
	sum := 0
	for i := range kinds {
		sum += kinds[i].weight
		if !slices.Contains(queues, kinds[i].queue) {
			t.Errorf("%s is in queue %q, which is not among the queues", kinds[i].typ, kinds[i].queue)
		}
	}
	if sum != 1000 {
		t.Errorf("the weights add up to %d", sum)
	}
	text := func(task *asynq.Task) string {
		return fmt.Sprintf("%s %x %v %v", task.Type(), task.Payload(), task.Headers(), task.Options())
	}
	same, other := 0, 0
	a, b, c := newShop(7), newShop(7), newShop(8)
	for range 200 {
		one := text(a.next())
		if one == text(b.next()) {
			same++
		}
		if one == text(c.next()) {
			other++
		}
	}
	if same != 200 || other > 5 {
		t.Errorf("of 200 tasks %d are the same with the same seed, %d with another", same, other)
	}
}

// The wave averages about 1 over its period, and contains the burst.
func TestWave(t *testing.T) {
	t.Parallel()
	sum, most := 0.0, 0.0
	for i := range 180 {
		w := wave(time.Duration(i) * time.Second)
		sum, most = sum+w, max(most, w)
	}
	if mean := sum / 180; mean < 0.9 || mean > 1.1 || most < 2 {
		t.Errorf("%.2f on average, at most %.2f", mean, most)
	}
}

// The outcome of an attempt is reproducible and differs between attempts. Every type has a handler.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	task := asynq.NewTask("webhook:deliver", []byte(`{"order_id":1}`))
	one, again, other := newOutcome(t.Context(), 1, task), newOutcome(t.Context(), 1, task), newOutcome(t.Context(), 2, task)
	x := one.Uint64()
	if x != again.Uint64() || x == other.Uint64() {
		t.Error("the outcome of a task does not depend only on the task and the seed")
	}
	mux, ok := newHandler(1).(*asynq.ServeMux)
	if !ok {
		t.Fatal("the handler is not a ServeMux")
	}
	types := []string{"search:bulk", "catalog:refresh", "stock:check", "report:daily", "session:cleanup", "newsletter:weekly", "order:pack", "order:ship",
		"payment:reserve", "payment:refund", "invoice:order"}
	for i := range kinds {
		types = append(types, kinds[i].typ)
	}
	for _, typ := range types {
		if _, pattern := mux.Handler(asynq.NewTask(typ, nil)); pattern == "" && typ != "legacy:sync" {
			t.Errorf("%s has no handler", typ)
		}
	}
}

// Trimming keeps the tasks that are due first, or the newest ones, depending on the state.
func TestTrim(t *testing.T) {
	t.Parallel()
	d, s := idle(t), newShop(1)
	const over = 30
	var scheduled []*asynq.Task
	for i := range bounds[asynq.TaskStateScheduled] + over {
		scheduled = append(scheduled, asynq.NewTask("later", nil, asynq.Queue(standard), asynq.TaskID(fmt.Sprint(i)), asynq.ProcessIn(time.Hour+time.Duration(i)*time.Minute)))
	}
	if err := d.send(t.Context(), slices.Concat(s.some("legacy:sync", unserved+over), scheduled, s.some("order:confirm", 40))); err != nil {
		t.Fatal(err)
	}
	if err := d.trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string][2]int{legacy: {unserved, 0}, standard: {0, bounds[asynq.TaskStateScheduled]}, critical: {40, 0}} {
		info, err := d.inspector.GetQueueInfo(queue)
		if err != nil || info.Pending != want[0] || info.Scheduled != want[1] {
			t.Errorf("%s: %d pending and %d scheduled, %v; want %v", queue, info.Pending, info.Scheduled, err, want)
		}
	}
	if _, err := d.inspector.GetTaskInfo(standard, "0"); err != nil {
		t.Errorf("the next due task is gone: %v", err)
	}
}

// All of these queues have tasks before any server starts.
func TestStock(t *testing.T) {
	t.Parallel()
	d := idle(t)
	if err := d.stock(t.Context(), newShop(1)); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{newsletter, legacy, reports, low, images, standard, critical} {
		info, err := d.inspector.GetQueueInfo(queue)
		if err != nil || info.Size == 0 || info.Paused != (queue == newsletter) {
			t.Errorf("%s: %+v, %v", queue, info, err)
		}
	}
}

// On an external Redis, Close deletes all data of the demo and preserves other queues.
func TestRemove(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := asynq.NewClient(redis)
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Enqueue(asynq.NewTask("theirs", nil), asynq.Queue("theirs")); err != nil {
		t.Fatal(err)
	}
	d, err := Start(t.Context(), Options{Redis: redis, Remove: true})
	if err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, "a scheduler to become leader", func() bool { return mini.Exists("asynq:scheduler_groups:{shop}") })
	for _, id := range d.entries { // as if each had enqueued a task
		if _, err := mini.ZAdd("asynq:scheduler_history:"+id, 1, "event"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	for _, key := range mini.Keys() {
		expires := strings.Contains(key, ":flow") && mini.TTL(key) > 0 // flows
		if key != "asynq:queues" && !expires && !strings.HasPrefix(key, "asynq:{theirs}:") {
			t.Errorf("%s is left", key)
		}
	}
	i := asynq.NewInspector(redis)
	t.Cleanup(func() { _ = i.Close() })
	if left, err := i.Queues(); err != nil || len(left) != 1 || left[0] != "theirs" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// If Redis is unreachable, Start returns an error and leaves no goroutines.
func TestStartUnreachable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if d, err := Start(ctx, Options{Redis: asynq.RedisClientOpt{Addr: "127.0.0.1:1"}}); err == nil {
		_ = d.Close()
		t.Error("Start succeeded without a Redis")
	}
}

// Keys expire in the embedded broker as in a real Redis.
func TestBrokerExpiresKeys(t *testing.T) {
	t.Parallel()
	b, err := StartBroker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.mini.Set("key", "value"); err != nil {
		t.Fatal(err)
	}
	b.mini.SetTTL("key", time.Second)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); b.mini.Exists("key"); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatal("the key is still there")
		}
	}
	b.Close()
	b.Close()
}
