package guarantee_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// A process that is killed takes only those attempts with it that it has not sent to the statistics
// over time: no attempt counts that did not end, none counts twice, and those of a server that
// shuts down count all.
func TestGuarantee16StatisticsOfAKilledProcess(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const sent, unsent, after = 150, 90, 60
		p := startCrashable(env)
		enqueueCounted(env, "sent", sent)
		p.awaitTasks(env, sent)
		env.Eventually(func() bool { return countedStats(env).Succeeded == sent }, "the process to send the statistics of %d attempts", sent)
		enqueueCounted(env, "unsent", unsent)
		p.awaitTasks(env, unsent)
		p.kill()
		killed := countedStats(env)
		if killed.Succeeded < sent || killed.Succeeded > sent+unsent || killed.Attempts() != killed.Succeeded {
			env.T.Fatalf("statistics of the killed process: %+v, want %d to %d succeeded", killed, sent, sent+unsent)
		}
		var ran testenv.Tally
		enqueueCounted(env, "after", after)
		srv := env.Serve(asynq.Config{LeaseDuration: time.Second}, ran.Handle)
		env.AwaitEmpty() // also of tasks that the process did not settle
		srv.Shutdown()
		total, runs := countedStats(env), int64(len(ran.Order()))
		if total.Succeeded != killed.Succeeded+runs || runs < after {
			env.T.Errorf("%d attempts count after %d more, and %d before", total.Succeeded, runs, killed.Succeeded)
		}
		if total.Succeeded > sent+unsent+runs {
			env.T.Errorf("%d attempts count, but %d ran", total.Succeeded, sent+unsent+runs)
		}
		if total.Crashed != runs-after || total.Retried+total.Archived+total.LeaseLost != 0 {
			env.T.Errorf("%d tasks of the killed process were recovered, but %+v", runs-after, total)
		}
	})
}

// enqueueCounted enqueues tasks of the type countedType, which a crashable process finishes.
func enqueueCounted(env *testenv.Env, name string, n int) {
	env.T.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask(countedType, nil, asynq.TaskID(name+strconv.Itoa(i)))
	}
	for _, r := range env.Client.BatchEnqueueContext(context.Background(), tasks) {
		env.NoError(r.Err)
	}
}

// countedStats returns the statistics over time of countedType.
func countedStats(env *testenv.Env) (total asynq.AttemptStats) {
	env.T.Helper()
	now := time.Now()
	all, err := env.Inspector().TypeStats(context.Background(), "default", now.Add(-10*time.Minute), now.Add(10*time.Minute))
	env.NoError(err)
	for _, s := range all {
		if s.Type == countedType {
			total.Merge(&s.AttemptStats)
		}
	}
	return total
}
