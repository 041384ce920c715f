package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// recordArchived sets a callback that records IDs and errors.
func recordArchived(r *rig) (calls *[]string) {
	calls = new([]string)
	r.cfg.Archived = &ArchivedCallback{
		Call: func(a *Attempt, err error) { *calls = append(*calls, a.Message.ID+": "+err.Error()) },
		Room: func(context.Context) {},
	}
	return calls
}

func TestArchivedIsReportedWhenConfirmed(t *testing.T) {
	for _, f := range []failure{noFailure, lost, replyLost} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 1)
			calls := recordArchived(r)
			r.handle = func(context.Context, *Attempt) error { return errTask }
			r.addMessage("q", &wire.TaskMessage{Type: "test", ID: "a", Queue: "q"})
			_, _ = r.roundTrip()
			if f != noFailure {
				r.cutNext(f)
				r.mustFail()
			}
			if len(*calls) > 0 {
				t.Errorf("reported %q before the reply", *calls)
			}
			r.drainWork()
			if want := []string{"a: " + errTask.Error()}; !slices.Equal(*calls, want) {
				t.Errorf("reported %q, want %q", *calls, want)
			}
			r.mustBe("q", "a", "archived")
			r.mustBeFree()
			if n := len(r.fetcher.lane.failures); n > 0 {
				t.Errorf("%d errors are kept", n)
			}
		})
	}
}

func TestArchivedIsNotReportedIfRejected(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		calls := recordArchived(r)
		r.handle = func(context.Context, *Attempt) error {
			r.set(func() { r.queues["q"].tasks["a"].token = "another" })
			return ErrSkipRetry
		}
		r.addSilently("q", "a")
		r.drainWork()
		r.mustLog(1, "outcome rejected")
		if len(*calls)+len(r.fetcher.lane.failures) > 0 {
			t.Errorf("reported %q", *calls)
		}
	})
}

func TestUnreadableIsReported(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		calls := recordArchived(r)
		r.addRaw("q", "a", []byte("\xff"))
		r.drainWork()
		if len(*calls) != 1 || len(r.fetcher.lane.failures) > 0 {
			t.Errorf("reported %q", *calls)
		}
	})
}

// An attempt that archives its task keeps its slot while the callbacks have no room.
func TestArchivedWaitsForRoom(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		calls, room := recordArchived(r), make(chan struct{})
		r.cfg.Archived.Room = func(context.Context) { <-room }
		r.handle = func(context.Context, *Attempt) error { return errors.Join(errTask, ErrSkipRetry) }
		r.addSilently("q", "a")
		r.drainWork()
		r.mustBe("q", "a", "active")
		if free := r.pool.slots.available(); free != 0 {
			t.Errorf("%d slots are free", free)
		}
		close(room)
		synctest.Wait()
		r.drainWork()
		r.mustBe("q", "a", "archived")
		if len(*calls) != 1 {
			t.Errorf("reported %q", *calls)
		}
		r.mustBeFree()
	})
}

func TestOnlyArchivedIsReported(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		calls := recordArchived(r)
		r.cfg.Archived.Room = func(context.Context) { t.Error("waited for room") }
		for _, err := range []error{nil, errTask, ErrRevokeTask, &RetryError{Snooze: true}} {
			a := decideOutcome(r, wire.TaskMessage{MaxRetry: 1}, err)
			if r.fetcher.awaitRoom(t.Context(), a); a.settlement.Outcome == rdb.Archive {
				t.Errorf("%v archives the task", err)
			}
		}
		if len(*calls)+len(r.fetcher.lane.failures) > 0 {
			t.Error("errors are kept")
		}
	})
}
