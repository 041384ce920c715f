package outbox_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// sentinelSet is a primary with two replicas, and a Sentinel.
type sentinelSet struct {
	t        testing.TB
	primary  *proctest.Redis
	sentinel string // its address
}

const sentinelMaster = "main"

// startSentinel starts a set whose failovers take longer than the retries of go-redis, which would
// otherwise hide them from clients.
func startSentinel(t testing.TB) *sentinelSet {
	t.Helper()
	s := &sentinelSet{t: t, primary: proctest.StartRedis(t), sentinel: proctest.FreeAddr(t)}
	_, primaryPort, _ := net.SplitHostPort(s.primary.Addr()) // always valid addresses
	_, port, _ := net.SplitHostPort(s.sentinel)
	for range 2 {
		proctest.StartRedis(t, "--replicaof", "127.0.0.1", primaryPort)
	}
	proctest.Until(t, "the replicas to be in sync", s.replicated)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %[2]s\nsentinel monitor %[1]s 127.0.0.1 %[3]s 1\n"+
		"sentinel down-after-milliseconds %[1]s 6000\nsentinel failover-timeout %[1]s 5000\n", sentinelMaster, port, primaryPort)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	proctest.Start(t, "redis-server", config, "--sentinel")
	proctest.Eventually(t, "the Sentinel to know the replicas", func() bool {
		return len(replicaOf.FindAllString(s.ask(s.sentinel, "sentinel", "replicas", sentinelMaster), -1)) == 2
	})
	return s
}

// ask returns the reply of a server as text; "" if there is none.
func (s *sentinelSet) ask(addr string, command ...any) string {
	s.t.Helper()
	conn, err := asynq.ConnectRedis(asynq.RedisClientOpt{Addr: addr})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Client.Do(context.Background(), command...).Result()
	if err != nil {
		return ""
	}
	return fmt.Sprint(reply)
}

var (
	offsetOf  = regexp.MustCompile(`master_repl_offset:(\d+)`)
	replicaOf = regexp.MustCompile(`role-reported.slave`)
)

// replicated returns an error unless both replicas have all writes of the primary.
func (s *sentinelSet) replicated() error {
	info := s.ask(s.primary.Addr(), "info", "replication")
	offset := offsetOf.FindStringSubmatch(info)
	if len(offset) == 0 || strings.Count(info, "state=online,offset="+offset[1]+",") != 2 {
		return fmt.Errorf("the primary reports %q", info)
	}
	return nil
}

// commit commits a task to the outbox.
func (e *env) commit(task *asynq.Task) error {
	tx, err := e.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if err := e.box.Enqueue(context.Background(), tx, task); err != nil {
		return err
	}
	return tx.Commit()
}

// Relays outlast a failover of Sentinel: the tasks are those of the committed rows, each once. The
// primary crashes when its replicas have all of its tasks, because replication is asynchronous, and
// transactions continue while no primary is up.
func TestRelayOverSentinelFailover(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	e, set := newEnv(t, outbox.SQLite), startSentinel(t)
	redis := asynq.RedisFailoverClientOpt{MasterName: sentinelMaster, SentinelAddrs: []string{set.sentinel}}
	e.client, e.inspector = asynq.NewClient(redis), asynq.NewInspector(redis)
	t.Cleanup(func() { _, _ = e.client.Close(), e.inspector.Close() }) // the test is over
	for range relays {
		e.start(e.relay(outbox.WithPollInterval(20 * time.Millisecond)))
	}
	var mu sync.RWMutex // held for reading during a transaction
	var committed atomic.Int64
	var writing sync.WaitGroup
	stopped := make(chan struct{})
	writing.Go(func() {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-pace.C:
			}
			mu.RLock()
			err := e.commit(asynq.NewTask("t", fmt.Append(nil, committed.Load())))
			mu.RUnlock()
			if err != nil {
				t.Error(err)
				return
			}
			committed.Add(1)
		}
	})
	relayed := func() bool { return e.stats().Waiting == 0 }
	proctest.Eventually(t, "rows before the failover", func() bool { return committed.Load() > 50 })
	mu.Lock()
	proctest.Eventually(t, "all rows to be relayed", relayed)
	proctest.Until(t, "the replicas to have all tasks", set.replicated)
	before := committed.Load()
	set.primary.Kill()
	mu.Unlock()
	_, port, _ := net.SplitHostPort(set.primary.Addr())
	proctest.Eventually(t, "another primary", func() bool {
		reply := set.ask(set.sentinel, "sentinel", "get-master-addr-by-name", sentinelMaster)
		return reply != "" && !strings.Contains(reply, port)
	})
	during := committed.Load()
	proctest.Eventually(t, "rows after the failover", func() bool { return committed.Load() > during+50 })
	close(stopped)
	writing.Wait()
	proctest.Eventually(t, "all rows to be relayed", relayed)
	seen := make(map[string]int)
	for _, info := range e.pending() {
		seen[string(info.Payload)]++
	}
	for i := range committed.Load() {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("row %d became %d tasks, want 1", i, n)
		}
	}
	if rows := e.failed(); len(rows) > 0 || int64(len(seen)) != committed.Load() {
		t.Errorf("%d tasks of %d rows, %d failed rows", len(seen), committed.Load(), len(rows))
	}
	if during == before {
		t.Error("no transaction was committed while no primary was up")
	}
	t.Logf("%d rows: %d before the failover, %d during it", committed.Load(), before, during-before)
}
