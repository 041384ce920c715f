package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/timetable"
)

// RegisterFast registers an entry with a tick at each multiple of d since 1970, which may be shorter than specs can say.
func (s *Scheduler) RegisterFast(d time.Duration, missed MissedTicks, task *Task, opts ...Option) (string, error) {
	e, err := s.newScheduled(PeriodicTaskConfig{Cronspec: "@every 1s", Task: task, Opts: opts, MissedTicks: missed})
	if err != nil {
		return "", err
	}
	e.schedule = timetable.Every(d)
	return s.add(e)
}

// ShortenLease makes the leases of a group short. It must be called before Start.
func (s *Scheduler) ShortenLease(d time.Duration) { s.lease = d }

// MoveClock sets what the scheduler takes for the time. It must be called before Start.
func (s *Scheduler) MoveClock(now func() time.Time) { s.now = now }

// Leads reports whether the scheduler leads its group.
func (s *Scheduler) Leads() bool {
	_, leads := s.leads(s.now())
	return leads
}

// Sync makes the manager ask its provider now.
func (m *PeriodicTaskManager) Sync() { m.sync(m.ended) }

// Scheduler returns the manager's scheduler.
func (m *PeriodicTaskManager) Scheduler() *Scheduler { return m.scheduler }

// EntryIDs returns the IDs of the entries, in their order.
func (s *Scheduler) EntryIDs() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		ids = append(ids, e.id)
	}
	return ids
}

// TickTaskID is the ID of the task of an entry's tick.
func TickTaskID(entryID string, tick time.Time) string {
	return (&scheduled{id: entryID}).taskID(tick)
}
