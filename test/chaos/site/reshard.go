package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// migrateBatch is the number of keys per MIGRATE command.
	migrateBatch = 100
	// migrateTimeout is the timeout of MIGRATE, which blocks the node.
	migrateTimeout = 10 * time.Second
)

// Reshard migrates a slot with all its keys to another shard while clients use it, and returns when
// all nodes know. Use Slot for the slot of a key. Meanwhile clients receive redirections (ASK), or
// TRYAGAIN for commands with several keys of which some have moved.
//
// No data is lost, unless a primary of the two shards fails at the same time. If Reshard fails, the
// slot stays half migrated, which clients do not notice; another Reshard to the same shard
// continues. If the slot is already there, Reshard is a no-op.
func (s *Site) Reshard(ctx context.Context, slot int, to *Shard) (*Incident, error) {
	i := begin("reshard")
	if s.opts.Kind != Cluster {
		return i, fmt.Errorf("a %s has no slots to move: %w", s.opts.Kind, ErrUnsupported)
	}
	from, err := s.shardOfSlot(ctx, slot)
	if err != nil {
		return i, err
	}
	m := &move{slot: slot}
	if m.source, err = from.settled(ctx); err != nil {
		return i, err
	}
	if m.target, err = to.settled(ctx); err != nil {
		return i, err
	}
	i.name([]*Node{m.source, m.target})
	i.Began = time.Now()
	if from != to {
		if err := m.do(ctx, s); err != nil {
			return i, fmt.Errorf("migrate slot %d from %s to %s (repeat it if it is half migrated): %w", slot, m.source, m.target, err)
		}
	}
	err = until(ctx, "all nodes to know the slot's new place", func(ctx context.Context) error {
		for _, n := range s.alive() {
			if err := m.known(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return i, err
	}
	for _, sh := range []*Shard{from, to} {
		if _, err := sh.settled(ctx); err != nil {
			return i, err
		}
	}
	i.Over, i.Primary, i.Effect = time.Now(), m.target.name, fmt.Sprintf("%d keys", m.moved)
	return i, nil
}

// move is a migrating slot.
type move struct {
	slot           int
	source, target *Node
	moved          int
}

func (m *move) do(ctx context.Context, s *Site) error {
	source, err := m.source.myself(ctx)
	if err != nil {
		return err
	}
	if source.only(m.slot) {
		return errors.New("the last slot of a shard: its nodes would become replicas of the other shard")
	}
	target, err := m.target.myself(ctx)
	if err != nil {
		return err
	}
	// The target first: it must accept the slot before the source redirects clients.
	if err := m.target.setSlot(ctx, m.slot, "importing", source.id); err != nil {
		return err
	}
	if err := m.source.setSlot(ctx, m.slot, "migrating", target.id); err != nil {
		return err
	}
	if err := m.keys(ctx); err != nil {
		return err
	}
	// From now on, the source creates no keys in the slot. Assign it to the target first, so that
	// the slot always has an owner.
	if err := m.target.setSlot(ctx, m.slot, "node", target.id); err != nil {
		return err
	}
	if err := m.source.setSlot(ctx, m.slot, "node", target.id); err != nil {
		return err
	}
	others, err := s.Primaries(ctx)
	if err != nil {
		return err
	}
	for _, n := range others {
		if n != m.source && n != m.target {
			// It would learn this by itself, somewhat later.
			if err := n.setSlot(ctx, m.slot, "node", target.id); err != nil && n.Alive() {
				return err
			}
		}
	}
	return nil
}

// keys migrates all keys of the slot. New keys are created at the target, so this terminates.
func (m *move) keys(ctx context.Context) error {
	return until(ctx, fmt.Sprintf("the keys of slot %d to be moved", m.slot), func(ctx context.Context) error {
		for {
			keys, err := m.source.client.ClusterGetKeysInSlot(ctx, m.slot, migrateBatch).Result()
			if err != nil || len(keys) == 0 {
				return err
			}
			// REPLACE: ignore a copy that an earlier attempt left at the target.
			args := []any{"migrate", "127.0.0.1", m.target.port, "", 0, migrateTimeout.Milliseconds(), "replace", "keys"}
			for _, k := range keys {
				args = append(args, k)
			}
			// MIGRATE ignores missing keys; if all are missing, it returns NOKEY.
			err = m.source.client.WithTimeout(2*migrateTimeout).Do(ctx, args...).Err()
			if err != nil && !strings.HasPrefix(err.Error(), "IOERR") && !strings.HasPrefix(err.Error(), "TRYAGAIN") {
				return final{err}
			}
			if err != nil {
				return err
			}
			m.moved += len(keys)
		}
	})
}

// known checks that a node considers the target the owner of the slot.
func (m *move) known(ctx context.Context, n *Node) error {
	peers, err := n.peers(ctx)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.is("master") && p.owns(m.slot) && n.site.byPort(p.port) == m.target {
			return nil
		}
	}
	return errors.New(n.String() + " does not know it yet")
}

func (n *Node) setSlot(ctx context.Context, slot int, what, id string) error {
	if err := n.client.Do(ctx, "cluster", "setslot", slot, what, id).Err(); err != nil {
		return fmt.Errorf("%s slot %d on %s: %w", what, slot, n, err)
	}
	return nil
}
