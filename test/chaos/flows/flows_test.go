// Package flows tests flows under faults: processes are killed, primaries restarted and replaced,
// and slots moved.
package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/chaos/site"
	"github.com/asynq-go/asynq/x/doctor"
)

// serverEnv makes the test binary a server, which the test kills. Its value is a place.
const serverEnv = "ASYNQ_TEST_FLOW_SERVER"

// membersEnv sets the number of members of the flows that run at a time, and roundsEnv how often
// the faults are injected.
const (
	membersEnv = "ASYNQ_FLOW_MEMBERS"
	roundsEnv  = "ASYNQ_FLOW_ROUNDS"
)

const (
	queues  = 8
	flows   = 4 // at a time
	servers = 3
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // go-redis logs failed connections
	if text := os.Getenv(serverEnv); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func queue(i int) string { return fmt.Sprint("q", i%queues) }

// place is where the tasks are, and a Redis without faults, in which handlers record what they did.
type place struct {
	Site    site.Address
	Journal string
}

func (p place) opt() asynq.RedisConnOpt {
	if p.Site.Kind == site.Cluster {
		return asynq.RedisClusterClientOpt{Addrs: p.Site.Addrs}
	}
	return asynq.RedisFailoverClientOpt{MasterName: p.Site.Master, SentinelAddrs: p.Site.Addrs}
}

func (p place) journal() *redis.Client { return redis.NewClient(&redis.Options{Addr: p.Journal}) }

// serve serves the tasks of the test until the process is killed or the parent has ended.
func serve(text string) error {
	var p place
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	journal := p.journal()
	cfg := asynq.Config{
		Concurrency: 20, LeaseDuration: 2 * time.Second, Queues: make(map[string]int), LogLevel: asynq.FatalLevel,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
		DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 100 * time.Millisecond,
	}
	for i := range queues {
		cfg.Queues[queue(i)] = 1
	}
	err := asynq.NewServer(p.opt(), cfg).Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		m, ok := flow.FromContext(ctx)
		if !ok {
			return errors.New("not a member")
		}
		switch task.Type() {
		case "first":
			return nil
		case "split":
			return split(ctx, m, string(task.Payload()))
		case "row":
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // work, so that servers are killed in between
			return journal.SAdd(ctx, "rows:"+m.FlowID(), string(task.Payload())).Err()
		}
		rows, err := journal.SCard(ctx, "rows:"+m.FlowID()).Result()
		if err != nil {
			return err
		}
		return journal.SAdd(ctx, "after:"+m.FlowID(), fmt.Sprintf("%s %s %d", m.Node(), id, rows)).Err()
	}))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// row returns a task that records row i of a flow.
func row(i int, opts ...asynq.Option) *asynq.Task {
	return asynq.NewTask("row", []byte(strconv.Itoa(i)), append(opts, asynq.Queue(queue(i)), asynq.MaxRetry(1000))...)
}

// split adds the rows of a payload "first count" to the node of its task.
func split(ctx context.Context, m *flow.Member, payload string) error {
	var first, count int
	if _, err := fmt.Sscan(payload, &first, &count); err != nil {
		return err
	}
	var tasks []*asynq.Task
	for i := first; i < first+count; i++ {
		tasks = append(tasks, row(i, asynq.TaskID(fmt.Sprintf("%s-%d", m.FlowID(), i)), asynq.Retention(time.Hour)))
	}
	results, err := m.Enqueue(ctx, tasks)
	for _, r := range results {
		if r.Err != nil && !errors.Is(r.Err, asynq.ErrTaskIDConflict) {
			err = errors.Join(err, r.Err)
		}
	}
	return err
}

// newFlow returns a flow with a batch of rows and nodes after it. If added is set, its members are
// added by handlers.
func newFlow(id string, rows int, added bool) *flow.Flow {
	often := asynq.MaxRetry(1000)
	n := rand.IntN(queues)
	f := flow.New(id)
	first := f.Add("first", asynq.NewTask("first", nil), asynq.Queue(queue(n)), often)
	var tasks []*asynq.Task
	if added {
		for i := range queues {
			tasks = append(tasks, asynq.NewTask("split", fmt.Append(nil, rows*i/queues, " ", rows*(i+1)/queues-rows*i/queues),
				asynq.Queue(queue(i)), often))
		}
	} else {
		for i := range rows {
			tasks = append(tasks, row(i))
		}
	}
	batch := f.AddBatch("rows", tasks).After(first)
	f.Add("success", asynq.NewTask("after", nil), asynq.Queue(queue(n+1)), often).After(batch)
	f.Add("end", asynq.NewTask("after", nil), asynq.Queue(queue(n+2)), often).AfterEnd(batch)
	f.Add("failure", asynq.NewTask("after", nil), asynq.Queue(queue(n+3)), often).AfterFailure(batch)
	return f
}

// server is a child process. kill kills it and starts another one.
type server struct {
	place string
	cmd   *exec.Cmd
	stdin io.Closer
}

func (s *server) start() error {
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverEnv+"="+s.place)
	s.cmd.Stderr = os.Stderr
	proctest.DieWithParent(s.cmd)
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	return s.cmd.Start()
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it may have exited
	_ = s.cmd.Wait()         // returns that it was killed
	_ = s.stdin.Close()
}

// fault is a fault of Redis.
type fault func(ctx context.Context, s *site.Site) (*site.Incident, error)

// restart kills a primary, which continues with its AOF.
func restart(ctx context.Context, s *site.Site) (*site.Incident, error) {
	primary, err := anyShard(s).Primary(ctx)
	if err != nil {
		return nil, err
	}
	return s.Restart(ctx, primary, 0)
}

// failover makes a replica the primary.
func failover(mode site.Mode) fault {
	return func(ctx context.Context, s *site.Site) (*site.Incident, error) {
		return s.Failover(ctx, anyShard(s), mode)
	}
}

// moveQueue moves the slot of a queue to another shard, and moveFlow that of a flow.
func moveQueue(ctx context.Context, s *site.Site) (*site.Incident, error) {
	return s.Reshard(ctx, site.Slot("{"+queue(rand.IntN(queues))+"}"), anyShard(s))
}

func moveFlow(ctx context.Context, s *site.Site) (*site.Incident, error) {
	return s.Reshard(ctx, site.Slot("{"+flowID(rand.IntN(flows))+"}"), anyShard(s))
}

func anyShard(s *site.Site) *site.Shard { return s.Shards()[rand.IntN(len(s.Shards()))] }

func flowID(i int) string { return fmt.Sprint("flow-", i) }

// fromEnv returns the number in an environment variable.
func fromEnv(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s, want a positive number", name, text)
	}
	return n
}

// Whatever dies, each node starts once, and not before all tasks of the node before it have ended.
// On the Cluster, no fault loses writes, and handlers add the members. On Sentinel, failovers lose
// writes: then all members are in the plan, which creates them again.
func TestFlowsUnderFaults(t *testing.T) {
	proctest.NeedRedis(t)
	for kind, faults := range map[site.Kind][]fault{
		site.Cluster:  {restart, moveQueue, moveFlow, failover(site.Order), moveQueue, restart, moveQueue},
		site.Sentinel: {failover(site.Crash), restart},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			run(t, kind, faults)
		})
	}
}

func run(t *testing.T, kind site.Kind, faults []fault) {
	members, rounds := fromEnv(t, membersEnv, 1000), fromEnv(t, roundsEnv, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*2*time.Minute+time.Duration(members)*20*time.Millisecond)
	t.Cleanup(cancel)
	s, err := site.Start(ctx, site.Options{Kind: kind, Fsync: site.Always})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p := place{Site: s.Address(), Journal: proctest.StartRedis(t).Addr()}
	journal, client, inspector := p.journal(), asynq.NewClient(p.opt()), asynq.NewInspector(p.opt())
	t.Cleanup(func() { _, _, _ = journal.Close(), client.Close(), inspector.Close() })

	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var running [servers]*server
	for i := range running {
		running[i] = &server{place: string(text)}
		if err := running[i].start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(running[i].stop)
	}

	// Flows are started until all faults have happened, some at a time.
	var lost []*site.Incident
	var over sync.WaitGroup
	faulty := make(chan struct{})
	over.Go(func() {
		defer close(faulty)
		until(ctx, t, func() error { return journal.SRandMember(ctx, "rows:"+flowID(0)).Err() })
		for i := range rounds * len(faults) {
			incident, err := faults[i%len(faults)](ctx, s)
			if err != nil {
				t.Error(err)
				return
			}
			t.Log(incident)
			if incident.Loses() > 0 {
				lost = append(lost, incident)
			}
		}
	})
	defer over.Wait()
	var open []string
	started, killed := 0, 0
	for {
		for ; len(open) < flows && !ended(faulty); started++ {
			id := flowID(started)
			until(ctx, t, func() error {
				_, err := flow.Start(ctx, client, newFlow(id, members/flows, kind == site.Cluster))
				if errors.Is(err, flow.ErrExists) {
					return nil // the reply was lost
				}
				return err
			})
			open = append(open, id)
		}
		if len(open) == 0 {
			break
		}
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond) // until a server is killed
		victim := running[rand.IntN(servers)]
		victim.stop()
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
		killed++
		var left []string
		for _, id := range open {
			var info *flow.Info
			until(ctx, t, func() (err error) {
				info, err = flow.Inspect(inspector).Get(ctx, id)
				return err
			})
			if info.Status != flow.Succeeded {
				left = append(left, id)
			}
		}
		open = left
	}
	over.Wait()
	if kind == site.Cluster && len(lost) > 0 {
		t.Errorf("faults have lost writes: %v", lost)
	}
	for i := range started {
		id := flowID(i)
		info, err := flow.Inspect(inspector).Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := violations(info, journal.SMembers(ctx, "after:"+id).Val(), members/flows); len(wrong) > 0 {
			t.Errorf("%s: %q", id, wrong)
		}
	}
	for finding, err := range doctor.Diagnose(ctx, p.opt(), doctor.Options{}) {
		if err != nil || finding.Flow != "" {
			t.Errorf("doctor: %v, %v", finding, err)
		}
	}
	t.Logf("%d flows with %d members; %d times a server was killed", started, started*(members/flows), killed)
}

// violations returns the errors of a flow that has succeeded, given what the tasks after the rows
// have recorded.
func violations(info *flow.Info, after []string, rows int) (wrong []string) {
	ran := make(map[string]map[string]bool) // task IDs by node
	for _, line := range after {
		var node, id string
		var seen int
		if _, err := fmt.Sscan(line, &node, &id, &seen); err != nil {
			wrong = append(wrong, fmt.Sprintf("unreadable: %q", line))
			continue
		}
		if seen != rows {
			wrong = append(wrong, fmt.Sprintf("early: %s ran after %d of %d rows", node, seen, rows))
		}
		if ran[node] == nil {
			ran[node] = make(map[string]bool)
		}
		ran[node][id] = true
	}
	for _, node := range []string{"success", "end"} {
		switch n := len(ran[node]); {
		case n == 0:
			wrong = append(wrong, "missing: "+node)
		case n > 1:
			wrong = append(wrong, fmt.Sprintf("twice: %d tasks of %s", n, node))
		}
	}
	if len(ran["failure"]) > 0 {
		wrong = append(wrong, "unfounded: failure ran")
	}
	for _, n := range info.Nodes {
		want := 1
		if n.Name == "rows" {
			want = rows
		}
		added := n.Name == "rows" && n.Total == rows+queues // with the tasks that add rows
		if n.Total != want && !added {
			wrong = append(wrong, fmt.Sprintf("miscounted: %s has %d members, want %d", n.Name, n.Total, want))
		}
		if n.Pending() != 0 && n.Status != flow.Omitted {
			wrong = append(wrong, fmt.Sprintf("unfinished: %s", n.Name))
		}
	}
	return wrong
}

// A correct history has no violations, and each planted one is found.
func TestPlantedViolations(t *testing.T) {
	t.Parallel()
	const rows = 3
	good := func() (*flow.Info, []string) {
		info := &flow.Info{ID: "f", Status: flow.Succeeded}
		for _, name := range []string{"first", "rows", "success", "end", "failure"} {
			n := flow.NodeInfo{Name: name, Total: 1, Succeeded: 1}
			if name == "rows" {
				n.Total, n.Succeeded = rows, rows
			}
			info.Nodes = append(info.Nodes, n)
		}
		return info, []string{"success s 3", "end e 3"}
	}
	if info, after := good(); len(violations(info, after, rows)) > 0 {
		t.Errorf("in a correct history: %v", violations(info, after, rows))
	}
	set := func(name string, total, succeeded int) func(info *flow.Info, after []string) []string {
		return func(info *flow.Info, after []string) []string {
			n := info.Node(name)
			n.Total, n.Succeeded = total, succeeded
			return after
		}
	}
	line := func(i int, text string) func(*flow.Info, []string) []string {
		return func(_ *flow.Info, after []string) []string {
			if i < len(after) {
				after[i] = text
				return after
			}
			return append(after, text)
		}
	}
	for want, plant := range map[string]func(info *flow.Info, after []string) []string{
		"early: success ran after 2 of 3 rows":      line(0, "success s 2"),
		"early: end ran after 0 of 3 rows":          line(1, "end e 0"),
		"early: end ran after 4 of 3 rows":          line(1, "end e 4"),
		"twice: 2 tasks of success":                 line(2, "success s2 3"),
		"twice: 2 tasks of end":                     line(2, "end e2 3"),
		"missing: success":                          func(_ *flow.Info, after []string) []string { return after[1:] },
		"missing: end":                              func(_ *flow.Info, after []string) []string { return after[:1] },
		"unfounded: failure ran":                    line(2, "failure f 3"),
		"unreadable: \"success\"":                   line(2, "success"),
		"miscounted: rows has 2 members, want 3":    set("rows", 2, 2),
		"miscounted: rows has 4 members, want 3":    set("rows", 4, 4),
		"miscounted: success has 2 members, want 1": set("success", 2, 2),
		"unfinished: rows":                          set("rows", 3, 2),
	} {
		info, after := good()
		if got := violations(info, plant(info, after), rows); len(got) != 1 || got[0] != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func ended(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// until repeats a call that may fail while Redis is down. If it fails for too long, the test does.
func until(ctx context.Context, t *testing.T, try func() error) {
	t.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%v: %v", context.Cause(ctx), err)
			runtime.Goexit()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
