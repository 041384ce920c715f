package poll

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

// A poll reads mutes each time and symptoms seldom, and unmutes acknowledged causes that are gone.
func TestHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(func(f *fakeSource) {
			f.queues["low"] = asynq.QueueInfo{Paused: true, Pending: 1}
			f.processes = []asynq.ProcessInfo{{Host: "h", PID: 1, ClockSkew: time.Hour}}
			f.mutes = []*asynq.Mute{{ID: "paused:low", At: time.Now()}}
		})
		var unmuted []string
		p := newPoller(t, Config{
			Source: f, Health: health.Settings{WaitNotice: time.Second},
			Unmute: func(_ context.Context, ids ...string) (int, error) {
				f.set(func(*fakeSource) { unmuted = append(unmuted, ids...) })
				return len(ids), nil
			},
		})
		s, err := p.Fresh(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "causes", kinds(s), []string{"warning clock-skew"})
		if len(s.Health.Muted) != 1 || s.Health.Muted[0].ID != "paused:low" {
			t.Errorf("muted %+v", s.Health.Muted)
		}
		// The first poll reads symptoms without knowing the queues, and so the second one again.
		time.Sleep(time.Second)
		if _, err := p.Fresh(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		f.set(func(f *fakeSource) {
			wantEqual(t, "queues of the first reads", f.surveyed, []int{0, 1})
			f.queues["low"] = asynq.QueueInfo{}
		})
		time.Sleep(10 * time.Minute)
		f.set(func(f *fakeSource) {
			if f.symptoms*4 < f.polls || f.symptoms > f.polls/2+1 {
				t.Errorf("symptoms were read %d times in %d polls", f.symptoms, f.polls)
			}
			if !slices.Contains(unmuted, "paused:low") {
				t.Errorf("unmuted %v", unmuted)
			}
		})
	})
}
