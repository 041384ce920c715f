package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/timetable"
)

// RegisterFast registers an entry with a tick at each multiple of d since 1970. d may be shorter
// than a cron spec can express.
func (s *Scheduler) RegisterFast(d time.Duration, missed MissedTicks, task *Task, opts ...Option) (string, error) {
	e, err := s.newScheduled(PeriodicTaskConfig{Cronspec: "@every 1s", Task: task, Opts: opts, MissedTicks: missed})
	if err != nil {
		return "", err
	}
	e.schedule = timetable.Every(d)
	return s.add(e)
}

// ShortenLease sets the duration of the leadership lease. It must be called before Start.
func (s *Scheduler) ShortenLease(d time.Duration) { s.lease = d }

// MoveClock replaces the clock of the scheduler. It must be called before Start.
func (s *Scheduler) MoveClock(now func() time.Time) { s.now = now }

// GrantLead applies a reply that makes the scheduler the leader. sent is the time of the request.
func (s *Scheduler) GrantLead(sent time.Time) {
	s.updateTerm(rdb.Leadership{Leads: true, Began: 1, Until: 1}, sent)
}

// TermLength returns the duration of a leadership term.
func (s *Scheduler) TermLength() time.Duration { return s.lease }

// TicksWoken reports whether the tick loop has a pending wake signal.
func (s *Scheduler) TicksWoken() bool { return len(s.wakeTicks) == 1 }

// Leads reports whether the scheduler leads its group.
func (s *Scheduler) Leads() bool {
	_, leads := s.leads(s.now())
	return leads
}

// Sync calls the provider now.
func (m *PeriodicTaskManager) Sync() { _, _ = m.sync(m.ended) }

// Scheduler returns the scheduler of the manager.
func (m *PeriodicTaskManager) Scheduler() *Scheduler { return m.scheduler }

// EntryIDs returns the IDs of the entries, in order.
func (s *Scheduler) EntryIDs() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		ids = append(ids, e.id)
	}
	return ids
}

// TickTaskID returns the task ID of a tick of an entry.
func TickTaskID(entryID string, tick time.Time) string {
	return (&scheduled{id: entryID}).taskID(tick)
}
