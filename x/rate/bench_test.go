package rate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// One call at a time, and eight concurrent ones: the cost of a limit per attempt.
func BenchmarkRedis(b *testing.B) {
	if servers.plain == "" {
		b.Fatal("this measures a real Redis: install redis-server")
	}
	p := place{opt: asynq.RedisClientOpt{Addr: servers.plain}}
	l := NewLimiter(p.opt, b.Name(), Limit{Events: maxEvents, Per: time.Second, Burst: 1000})
	defer l.Close()
	strict := NewLimiter(p.opt, b.Name()+"-strict", PerHour(1))
	defer strict.Close()
	s := NewSemaphore(p.opt, b.Name(), 8)
	defer s.Close()
	ctx := context.Background()
	for name, call := range map[string]func(i int) error{
		"allowed": func(int) error { _, err := l.Allow(ctx, "k"); return err },
		"limited": func(int) error { _, _, err := strict.take(ctx, "k", 1, true); return err },
		"semaphore": func(i int) error {
			id := fmt.Sprint(i)
			if ok, err := s.acquire(ctx, id, time.Minute); err != nil || !ok {
				return err
			}
			return s.release(ctx, id)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if err := call(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
