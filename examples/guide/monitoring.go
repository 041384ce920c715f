package guide

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"
)

// Health answers 200 while the server reaches Redis, and 503 otherwise.
func Health(srv *asynq.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := srv.Ping(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// LateQueues returns an error for each queue whose oldest pending task has waited for longer than
// the limit.
func LateQueues(ctx context.Context, inspector *asynq.Inspector, limit time.Duration) ([]error, error) {
	results, err := inspector.QueueInfos(ctx)
	if err != nil {
		return nil, err
	}
	var late []error
	for _, r := range results {
		switch {
		case r.Err != nil:
			late = append(late, r.Err)
		case r.Info.Latency > limit:
			late = append(late, fmt.Errorf("queue %s is %v late", r.Info.Queue, r.Info.Latency.Round(time.Second)))
		}
	}
	return late, nil
}

// SlowTypes returns the task types whose attempts in the last hour took longer than the limit in
// more than one of twenty cases.
func SlowTypes(ctx context.Context, inspector *asynq.Inspector, limit time.Duration) ([]string, error) {
	now := time.Now()
	stats, err := inspector.TypeStats(ctx, "", now.Add(-time.Hour), now)
	if err != nil {
		return nil, err
	}
	var slow []string
	for _, s := range stats {
		if p95 := s.Duration.Quantile(0.95); p95 > limit {
			slow = append(slow, fmt.Sprintf("%s in queue %s: 95 %% within %v", s.Type, s.Queue, p95))
		}
	}
	return slow, nil
}

// RunFailedMails runs the archived mails again that failed because of a timeout.
func RunFailedMails(ctx context.Context, inspector *asynq.Inspector) (int, error) {
	return inspector.RunTasks(ctx, "default", asynq.TaskStateArchived, asynq.TaskFilter{
		Type:          "email:*",
		ErrorContains: "timeout",
	})
}
