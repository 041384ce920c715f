package flow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// crashableEnv has the addresses of the Cluster for a child process: a server that the test kills.
const crashableEnv = "ASYNQ_TEST_FLOW_SERVER"

// membersEnv sets the number of members of TestFlowsOfKilledServers.
const membersEnv = "ASYNQ_FLOW_MEMBERS"

const crashQueues = 8

func TestMain(m *testing.M) {
	if addrs := os.Getenv(crashableEnv); addrs != "" {
		serveFlows(strings.Split(addrs, ","))
		return
	}
	testenv.Main(m)
}

func crashQueue(i int) string { return fmt.Sprint("q", i%crashQueues) }

// serveFlows serves the tasks of the test until the process is killed or the parent has ended.
func serveFlows(addrs []string) {
	opt := asynq.RedisClusterClientOpt{Addrs: addrs}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	cfg := asynq.Config{
		Concurrency: 20, LeaseDuration: 2 * time.Second, Queues: make(map[string]int), LogLevel: asynq.FatalLevel,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
		DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 100 * time.Millisecond,
	}
	for i := range crashQueues {
		cfg.Queues[crashQueue(i)] = 1
	}
	srv := asynq.NewServer(opt, cfg)
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
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
			return cluster.SAdd(ctx, "rows:"+m.FlowID(), string(task.Payload())).Err()
		}
		rows, err := cluster.SCard(ctx, "rows:"+m.FlowID()).Result()
		if err != nil {
			return err
		}
		return cluster.SAdd(ctx, "after:"+m.FlowID(), fmt.Sprintf("%s %s %d", m.Node(), id, rows)).Err()
	})); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// split adds the rows of a payload "first count" to the node of its task.
func split(ctx context.Context, m *flow.Member, payload string) error {
	var first, count int
	if _, err := fmt.Sscan(payload, &first, &count); err != nil {
		return err
	}
	var tasks []*asynq.Task
	for i := first; i < first+count; i++ {
		tasks = append(tasks, asynq.NewTask("row", []byte(strconv.Itoa(i)),
			asynq.TaskID(fmt.Sprintf("%s-%d", m.FlowID(), i)), asynq.Queue(crashQueue(i)), asynq.Retention(time.Hour), asynq.MaxRetry(1000)))
	}
	results, err := m.Enqueue(ctx, tasks)
	for _, r := range results {
		if r.Err != nil && !errors.Is(r.Err, asynq.ErrTaskIDConflict) {
			err = errors.Join(err, r.Err)
		}
	}
	return err
}

// startCrashed starts a child process with a server. The result kills it.
func startCrashed(t *testing.T, addrs []string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashableEnv+"="+strings.Join(addrs, ","))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // returns that it was killed
		_ = stdin.Close()
	}
}

// On a Cluster, while servers are killed, each node starts once, and not before all tasks of the
// node before it have ended.
func TestFlowsOfKilledServers(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	members, _ := strconv.Atoi(os.Getenv(membersEnv))
	if members == 0 {
		members = 1000
	}
	nodes, err := proctest.NewPrimaries(3)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, node := range nodes {
		t.Cleanup(node.Close)
		addrs = append(addrs, node.Addr())
	}
	opt := asynq.RedisClusterClientOpt{Addrs: addrs}
	client := asynq.NewClient(opt)
	inspect := asynq.NewInspector(opt)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() {
		_, _, _ = client.Close(), inspect.Close(), cluster.Close()
	})
	ctx := context.Background()

	const flows = 4
	for n := range flows {
		f := flow.New(fmt.Sprint("flow-", n))
		first := f.Add("first", asynq.NewTask("first", nil), asynq.Queue(crashQueue(n)), asynq.MaxRetry(1000))
		var tasks []*asynq.Task
		for i := range crashQueues {
			each := members / flows / crashQueues
			tasks = append(tasks, asynq.NewTask("split", fmt.Append(nil, i*each, " ", each), asynq.Queue(crashQueue(i)), asynq.MaxRetry(1000)))
		}
		rows := f.AddBatch("rows", tasks).After(first)
		f.Add("success", asynq.NewTask("after", nil), asynq.Queue(crashQueue(n+1)), asynq.MaxRetry(1000)).After(rows)
		f.Add("end", asynq.NewTask("after", nil), asynq.Queue(crashQueue(n+2)), asynq.MaxRetry(1000)).AfterEnd(rows)
		f.Add("failure", asynq.NewTask("after", nil), asynq.Queue(crashQueue(n+3)), asynq.MaxRetry(1000)).AfterFailure(rows)
		if _, err := flow.Start(ctx, client, f); err != nil {
			t.Fatal(err)
		}
	}

	var kills [3]func()
	for i := range kills {
		kills[i] = startCrashed(t, addrs)
	}
	killed, deadline := 0, time.Now().Add(testenv.Timeout+time.Duration(members)*20*time.Millisecond)
	for left := flows; left > 0; {
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond) // the time until a server is killed
		i := rand.IntN(len(kills))
		kills[i]()
		kills[i] = startCrashed(t, addrs)
		killed++
		left = 0
		for n := range flows {
			info, err := flow.Inspect(inspect).Get(ctx, fmt.Sprint("flow-", n))
			if err != nil {
				t.Fatal(err)
			}
			if info.Status != flow.Succeeded {
				left++
				if time.Now().After(deadline) {
					t.Errorf("after %d kills, a flow is %s: %+v", killed, info.Status, info)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	for _, kill := range kills {
		kill()
	}
	for n := range flows {
		id := fmt.Sprint("flow-", n)
		want := members / flows / crashQueues * crashQueues
		after := cluster.SMembers(ctx, "after:"+id).Val()
		seen := make(map[string]int)
		for _, line := range after {
			node, rest, _ := strings.Cut(line, " ")
			seen[node]++
			if !strings.HasSuffix(rest, fmt.Sprint(" ", want)) {
				t.Errorf("%s: %s ran before all %d rows", id, line, want)
			}
		}
		info, err := flow.Inspect(inspect).Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Node("rows").Total; got != want+crashQueues || info.Node("success").Total != 1 || info.Node("end").Total != 1 {
			t.Errorf("%s: a node was created more than once: %+v", id, info)
		}
		if seen["success"] != 1 || seen["end"] != 1 || seen["failure"] != 0 {
			t.Errorf("%s: the tasks after the rows are %v", id, after)
		}
	}
	t.Logf("%d members of %d flows; %d times a server was killed", members, flows, killed)
}
