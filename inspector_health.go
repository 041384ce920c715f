package asynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/wire"
)

// RedisNode is the state of one Redis server. If Err is not nil, the server could not be read, and
// fields may be empty.
type RedisNode struct {
	Addr string    // address as host:port
	Info string    // reply to the command INFO
	Keys int64     // number of keys in its database
	Now  time.Time // time by its clock
	Err  error     // why the server could not be read
}

// RedisNodes returns the state of the Redis server, of all masters of a Cluster, or of all shards
// of a Ring, by address. The Redis user needs the permissions +info, +dbsize and +time.
func (i *Inspector) RedisNodes(ctx context.Context) ([]RedisNode, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	found, err := inspect.Nodes(ctx, i.conn.client)
	return converted(found, err, func(n inspect.Node) RedisNode {
		return RedisNode{Addr: n.Addr, Info: n.Info, Keys: n.Keys, Now: n.Now, Err: brokerError(n.Err)}
	})
}

// ProcessInfo is a server, a worker that uses a Receiver, or a scheduler, as registered in Redis.
type ProcessInfo struct {
	ID   string // unique ID of the server or scheduler
	Host string // host of the process
	PID  int    // ID of the process

	Scheduler bool // it is a scheduler

	// Expired is when the registration expired, by the clock of the process: it ended without a
	// shutdown, or lost its connection. It is zero while the process is running.
	Expired time.Time

	// ClockSkew is the clock of the process minus that of Redis, to about a second. It is zero if
	// Expired is set.
	ClockSkew time.Duration
}

// Processes returns the servers and schedulers that are running, and those whose registration has
// expired within a time up to 24 hours because they ended without a shutdown. The registration of a
// server expires 10 seconds after its last heartbeat. Other schedulers delete the registrations of
// schedulers that have ended.
//
// It returns at most 1,000 servers and 1,000 schedulers, servers first, each the latest first.
func (i *Inspector) Processes(ctx context.Context, within time.Duration) ([]ProcessInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	found, err := i.inspector.Processes(ctx, min(max(within, 0), 24*time.Hour))
	return converted(found, err, func(p inspect.Process) ProcessInfo {
		return ProcessInfo{ID: p.ID, Host: p.Host, PID: p.PID, Scheduler: p.Scheduler, Expired: p.Expired, ClockSkew: p.Skew}
	})
}

// Mute is a cause of x/health that is muted: it is listed apart.
type Mute struct {
	ID    string    // ID of the cause, up to 512 bytes
	Until time.Time // up to 90 days from now; zero: acknowledged until the cause is gone
	By    string    // who muted it, up to 256 bytes; may be empty
	Note  string    // why, up to 1,024 bytes; may be empty
	At    time.Time // when it was muted; set by MuteCause
}

// The limits of a Mute.
const (
	maxMuteID   = 512
	maxMuteBy   = 256
	maxMuteNote = 1 << 10
	maxMuteFor  = 90 * 24 * time.Hour
)

func (m Mute) validate(now time.Time) error {
	for _, text := range []struct {
		name, value string
		limit       int
	}{{"ID", m.ID, maxMuteID}, {"By", m.By, maxMuteBy}, {"Note", m.Note, maxMuteNote}} {
		if len(text.value) > text.limit || !utf8.ValidString(text.value) {
			return fmt.Errorf("asynq: mute: %s must be valid UTF-8 of up to %d bytes", text.name, text.limit)
		}
	}
	switch {
	case m.ID == "":
		return errors.New("asynq: mute: ID must not be empty")
	case !m.Until.IsZero() && !m.Until.After(now):
		return errors.New("asynq: mute: Until must be in the future")
	case m.Until.Sub(now) > maxMuteFor:
		return errors.New("asynq: mute: Until must be within 90 days")
	}
	return nil
}

// MuteCause mutes a cause on all surfaces that share this Redis, and replaces an earlier mute of
// it. A mute without an end lasts until the cause is gone, as far as a program notices that checks
// continuously, such as asynq web; 30 days at most. It returns an error if a field of m exceeds its
// limit, or if 1,000 causes are muted.
func (i *Inspector) MuteCause(ctx context.Context, m Mute) error {
	if ctx == nil {
		return errNilContext
	}
	now := time.Now()
	if err := m.validate(now); err != nil {
		return err
	}
	stored := wire.Mute{At: now.UnixMilli(), By: m.By, Note: m.Note}
	if !m.Until.IsZero() {
		stored.Until = m.Until.UnixMilli()
	}
	err := i.inspector.Mute(ctx, m.ID, stored)
	if errors.Is(err, inspect.ErrManyMutes) {
		return fmt.Errorf("asynq: %w", err)
	}
	return brokerError(err)
}

// UnmuteCause ends the mutes of causes. It returns how many of them were muted.
func (i *Inspector) UnmuteCause(ctx context.Context, ids ...string) (int, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	n, err := i.inspector.Unmute(ctx, ids...)
	return n, brokerError(err)
}

// Mutes returns the muted causes, by ID.
func (i *Inspector) Mutes(ctx context.Context) ([]*Mute, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	found, err := i.inspector.Mutes(ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	all := make([]*Mute, 0, len(found))
	for id, m := range found {
		mute := &Mute{ID: id, By: m.By, Note: m.Note, At: time.UnixMilli(m.At)}
		if m.Until != 0 {
			mute.Until = time.UnixMilli(m.Until)
		}
		all = append(all, mute)
	}
	slices.SortFunc(all, func(a, b *Mute) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
