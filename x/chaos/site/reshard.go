package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// migrateAtOnce is how many keys are moved by one command.
	migrateAtOnce = 100
	// migrateWithin is how long that may take. Meanwhile the node answers nobody.
	migrateWithin = 10 * time.Second
)

// Reshard moves a slot with all its keys to another shard while clients use it, and returns when all nodes know. Use Slot for the slot
// of a key. Meanwhile clients are told to ask elsewhere (ASK) or later (TRYAGAIN, for commands with several keys of which some have moved).
//
// Nothing is lost, unless a primary of the two shards goes down at the same time. If Reshard fails in the midst, the slot stays
// half moved; to the clients that makes no difference, and a Reshard to the same shard goes on with it. A slot that is there already is left
// alone.
func (s *Site) Reshard(ctx context.Context, slot int, to *Shard) (*Incident, error) {
	i := begin("reshard")
	if s.opts.Kind != Cluster {
		return i, fmt.Errorf("a %s has no slots to move: %w", s.opts.Kind, ErrNotHere)
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
			return i, fmt.Errorf("moving slot %d from %s to %s (if it is half moved, repeat it): %w", slot, m.source, m.target, err)
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

// move is a slot on its way.
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
		return errors.New("it is the last slot of its shard, whose nodes would become replicas of the other")
	}
	target, err := m.target.myself(ctx)
	if err != nil {
		return err
	}
	// The target first: it must know of the slot before the source sends it clients.
	if err := m.target.setSlot(ctx, m.slot, "importing", source.id); err != nil {
		return err
	}
	if err := m.source.setSlot(ctx, m.slot, "migrating", target.id); err != nil {
		return err
	}
	if err := m.keys(ctx); err != nil {
		return err
	}
	// From now on the source makes no new keys in the slot. The target takes it first, or for a moment it would be nobody's.
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
			// It would learn that by itself, somewhat later.
			if err := n.setSlot(ctx, m.slot, "node", target.id); err != nil && n.Alive() {
				return err
			}
		}
	}
	return nil
}

// keys moves all keys of the slot. Those that clients make meanwhile are made at the target, so there is an end.
func (m *move) keys(ctx context.Context) error {
	return until(ctx, fmt.Sprintf("the keys of slot %d to be moved", m.slot), func(ctx context.Context) error {
		for {
			keys, err := m.source.client.ClusterGetKeysInSlot(ctx, m.slot, migrateAtOnce).Result()
			if err != nil || len(keys) == 0 {
				return err
			}
			// REPLACE: a key that an attempt before left at the target while it is still here is of no use there.
			args := []any{"migrate", "127.0.0.1", m.target.port, "", 0, migrateWithin.Milliseconds(), "replace", "keys"}
			for _, k := range keys {
				args = append(args, k)
			}
			// Keys that are gone by now are passed over; where all are, the answer is NOKEY.
			err = m.source.client.WithTimeout(2*migrateWithin).Do(ctx, args...).Err()
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

// known checks that a node takes the target for the slot's owner.
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
