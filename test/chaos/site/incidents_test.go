package site

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// write writes keys one by one until the context is done, and returns when each was acknowledged.
func write(ctx context.Context, client redis.Cmdable, prefix string) []time.Time {
	var answered []time.Time
	for ctx.Err() == nil {
		if client.Set(ctx, prefix+strconv.Itoa(len(answered)), strings.Repeat("x", 100), 0).Err() != nil {
			return answered
		}
		answered = append(answered, time.Now())
	}
	return answered
}

func TestPowerLoss(t *testing.T) {
	s, ctx := start(t, Options{Kind: Standalone})
	node := s.Nodes()[0]
	var answered []time.Time
	var writer sync.WaitGroup
	writer.Go(func() { answered = write(ctx, node.Client(), "k") })
	// Long enough for some data to be certainly on disk.
	if err := pause(ctx, 2*synced); err != nil {
		t.Fatal(err)
	}
	i, err := s.PowerLoss(ctx, node, 0)
	done(t, i, err)
	writer.Wait()
	left := sort.Search(len(answered), func(n int) bool { return node.Client().Get(ctx, "k"+strconv.Itoa(n)).Err() != nil })
	if keys, err := node.Keys(ctx); err != nil || int(keys)-left > 1 { // one more may be written but not acknowledged
		t.Fatalf("%d keys, the first %d among them, error %v", keys, left, err)
	}
	t.Logf("%d of %d are left, %d bytes were cut", left, len(answered), i.Cut)
	if i.Cut == 0 || left == len(answered) || left == 0 {
		t.Fatal("nothing was cut, or everything")
	}
	if oldest := answered[left]; oldest.Before(i.LostFrom) {
		t.Errorf("a write of %v before the loss began is gone", i.LostFrom.Sub(oldest))
	}
	if newest := answered[len(answered)-1]; newest.After(i.LostUntil) {
		t.Errorf("a write of %v after the loss ended is gone", newest.Sub(i.LostUntil))
	}
}

func TestIncidents(t *testing.T) {
	s, ctx := start(t, Options{Kind: Standalone})
	client := s.Client()

	if err := client.Eval(ctx, "return 1", nil).Err(); err != nil {
		t.Fatal(err)
	}
	i, err := s.ScriptFlush(ctx)
	done(t, i, err)
	if err := client.EvalSha(ctx, redis.NewScript("return 1").Hash(), nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Errorf("after the scripts were flushed: %v", err)
	}

	sub := client.Subscribe(ctx, "channel")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	i, err = s.KillClients(ctx)
	done(t, i, err)
	if _, err := sub.Receive(ctx); err == nil {
		t.Error("the subscriber's connection is still there")
	}

	// Commands wait meanwhile.
	const d = time.Second // long enough for a busy client to call
	slowed := during(ctx, t, func(ctx context.Context) error { return client.Get(ctx, "nothing").Err() },
		func(took time.Duration, _ error) bool { return took > d/2 })
	i, err = s.Slow(ctx, d)
	done(t, i, err)
	slowed()

	full := during(ctx, t, func(ctx context.Context) error { return client.Set(ctx, "k", strings.Repeat("x", 5000), 0).Err() },
		func(_ time.Duration, err error) bool { return redis.IsOOMError(err) })
	i, err = s.Full(ctx, d)
	done(t, i, err)
	full()
	fill(ctx, t, s, "after", 10)

	if n, err := s.Nodes()[0].Keys(ctx); n < 10 || err != nil {
		t.Errorf("%d keys, error %v", n, err)
	}
	if n, err := s.Nodes()[0].Commands(ctx); n < 10 || err != nil {
		t.Errorf("%d commands, error %v", n, err)
	}
	if n, err := s.Nodes()[0].Memory(ctx); n < 10 || err != nil {
		t.Errorf("%d bytes, error %v", n, err)
	}
}

// during makes calls until the returned function is called, which ends the test if none was as
// expected.
func during(ctx context.Context, t *testing.T, call func(context.Context) error, is func(time.Duration, error) bool) func() {
	ctx, cancel := context.WithCancel(ctx)
	met := false
	var calls sync.WaitGroup
	calls.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			err := call(ctx)
			met = met || is(time.Since(began), err)
		}
	})
	return func() {
		t.Helper()
		cancel()
		calls.Wait()
		if !met {
			t.Fatal("clients noticed nothing")
		}
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	for fsync, want := range map[Fsync]string{EverySecond: Refused, Always: Exited} {
		t.Run(string(fsync), func(t *testing.T) {
			s, ctx := start(t, Options{Kind: Standalone, Fsync: fsync})
			fill(ctx, t, s, "before", 10)
			node := s.Nodes()[0]
			kept := 0
			refused := during(ctx, t, func(ctx context.Context) error {
				err := node.Client().Set(ctx, "k"+strconv.Itoa(kept), strings.Repeat("x", 5000), 0).Err()
				if err == nil {
					kept++
				}
				return err
			}, func(_ time.Duration, err error) bool { return err != nil && !errors.Is(err, context.Canceled) })
			i, err := s.DiskFull(ctx, node, 2*time.Second)
			done(t, i, err)
			refused()
			if i.Effect != want {
				t.Errorf("the node has %q, want %q", i.Effect, want)
			}
			fill(ctx, t, s, "after", 10)
			if _, err := s.Restart(ctx, node, 0); err != nil {
				t.Fatal(err)
			}
			all(ctx, t, s, "before", 10)
			if found := count(ctx, t, s, "k", kept); fsync == Always && found != kept {
				t.Errorf("%d of %d acknowledged writes exist", found, kept)
			}
		})
	}
}

func TestReshardAndDeadShard(t *testing.T) {
	s, ctx := start(t, Options{Kind: Cluster, MinReplicas: 1})
	from, to := s.Shards()[0], s.Shards()[2]
	slot, err := primaryOf(ctx, t, from).anySlot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tag := "{" + keyIn(slot) + "}"
	if Slot(tag+"x") != slot {
		t.Fatal("the keys are not in that slot")
	}
	fill(ctx, t, s, tag, 1000)

	// Clients with only the retries of go-redis see no errors.
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Address().Addrs, ContextTimeoutEnabled: true})
	defer client.Close()
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := 0; traffic.Err() == nil; i++ {
				fresh := tag + "new" + strconv.Itoa(c) + "-" + strconv.Itoa(i)
				errs := []error{
					client.Set(ctx, fresh, 1, 0).Err(),
					client.Incr(ctx, tag+strconv.Itoa(i%1000)).Err(),
					client.Del(ctx, fresh).Err(),
				}
				if err := errors.Join(errs...); err != nil {
					t.Errorf("client %d, round %d: %v", c, i, err)
					return
				}
			}
		})
	}
	i, err := s.Reshard(ctx, slot, to)
	done(t, i, err)
	stop()
	clients.Wait()
	if sh, err := s.ShardOf(ctx, tag); sh != to {
		t.Fatalf("slot %d is in %v, error %v", slot, sh, err)
	}
	all(ctx, t, s, tag, 1000)
	if n, err := primaryOf(ctx, t, to).Client().ClusterCountKeysInSlot(ctx, slot).Result(); n != 1000 {
		t.Fatalf("%d keys are at the new place, error %v", n, err)
	}
	if i, err := s.Reshard(ctx, slot, to); err != nil || i.Effect != "0 keys" {
		t.Errorf("again: %v, error %v", i, err)
	}

	// Other shards keep working while a shard is dead.
	refused := during(ctx, t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		return client.Set(ctx, tag, 1, 0).Err()
	}, func(_ time.Duration, err error) bool { return err != nil && ctx.Err() == nil })
	served := during(ctx, t, func(ctx context.Context) error { return client.Set(ctx, keyIn(1), 1, 0).Err() },
		func(_ time.Duration, err error) bool { return err == nil && primaryDown(to) })
	i, err = s.DeadShard(ctx, to, time.Second)
	done(t, i, err)
	refused()
	served()
	all(ctx, t, s, tag, 1000)

	if err := s.Nodes()[0].Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Nodes()[1].Kill(), s.Revive(ctx)); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Primaries(ctx); len(list) != 3 {
		t.Errorf("%d primaries after Revive, error %v", len(list), err)
	}
}

func primaryDown(sh *Shard) bool {
	for _, n := range sh.Nodes() {
		if n.PID() != 0 {
			return false
		}
	}
	return true
}
