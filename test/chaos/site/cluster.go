package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

const (
	shards    = 3
	slotCount = 16384
)

// clusterConfig is the configuration of Cluster nodes. Replicas stay in their shard and may always
// take over.
const clusterConfig = `cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout 1500
cluster-require-full-coverage no
cluster-replica-validity-factor 0
cluster-migration-barrier 100
`

// startCluster starts the nodes and creates a Cluster: the primaries get slots and epochs, all
// nodes meet, then the replicas are assigned.
func (s *Site) startCluster(ctx context.Context) error {
	for i := range shards {
		sh := &Shard{site: s, name: "shard" + strconv.Itoa(i+1)}
		for j := range 2 {
			n, err := s.addNode("redis"+strconv.Itoa(2*i+j+1), clusterConfig)
			if err != nil {
				return err
			}
			sh.nodes = append(sh.nodes, n)
		}
		s.shards = append(s.shards, sh)
	}
	if err := startAll(ctx, s.nodes); err != nil {
		return err
	}
	for i, n := range s.nodes {
		if err := n.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
	}
	for i, sh := range s.shards {
		if err := sh.nodes[0].addSlots(ctx, slotCount*i/shards, slotCount*(i+1)/shards-1); err != nil {
			return err
		}
	}
	for _, n := range s.nodes[1:] {
		if err := s.nodes[0].client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(n.port)).Err(); err != nil {
			return err
		}
	}
	for _, sh := range s.shards {
		primary, replica := sh.nodes[0], sh.nodes[1]
		id, err := primary.client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		err = until(ctx, replica.name+" to know its primary", func(ctx context.Context) error {
			return replica.client.ClusterReplicate(ctx, id).Err()
		})
		if err != nil {
			return err
		}
	}
	err := until(ctx, "the nodes to know each other", func(ctx context.Context) error {
		for _, n := range s.nodes {
			text, err := n.client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			info := parseFields(text)
			if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(slotCount) ||
				info["cluster_known_nodes"] != strconv.Itoa(len(s.nodes)) {
				return fmt.Errorf("%s says: %s", n, text)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.Settle(ctx)
}

// addSlots assigns a range of slots to the node.
func (n *Node) addSlots(ctx context.Context, first, last int) error {
	if n.site.version.atLeast(7, 0) {
		return n.client.ClusterAddSlotsRange(ctx, first, last).Err()
	}
	slots := make([]int, 0, last-first+1)
	for slot := first; slot <= last; slot++ {
		slots = append(slots, slot)
	}
	return n.client.ClusterAddSlots(ctx, slots...).Err()
}

// peer is a node of a Cluster as seen by another node or itself.
type peer struct {
	id     string
	port   string
	flags  []string
	master string // ID of its primary; "-" for a primary
	linked bool
	slots  []slotRange
}

type slotRange struct{ first, last int }

func (p *peer) is(flag string) bool { return slices.Contains(p.flags, flag) }

func (p *peer) owns(slot int) bool {
	return slices.ContainsFunc(p.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

// only reports whether the peer has no other slot.
func (p *peer) only(slot int) bool {
	return len(p.slots) == 1 && p.slots[0] == slotRange{slot, slot}
}

// peers returns all nodes as seen by a node.
func (n *Node) peers(ctx context.Context) ([]*peer, error) {
	text, err := n.client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	var list []*peer
	for line := range strings.Lines(text) {
		p, err := parsePeer(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("%s: invalid line %q: %w", n.name, line, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// parsePeer parses a line of CLUSTER NODES: ID, address, flags, primary, ping, pong, epoch, link,
// slots.
func parsePeer(words []string) (*peer, error) {
	if len(words) < 8 {
		return nil, errors.New("too few fields")
	}
	addr, _, _ := strings.Cut(words[1], "@")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p := &peer{id: words[0], port: port, flags: strings.Split(words[2], ","), master: words[3], linked: words[7] == "connected"}
	for _, w := range words[8:] {
		if strings.HasPrefix(w, "[") {
			continue // a migrating slot
		}
		first, last, isRange := strings.Cut(w, "-")
		if !isRange {
			last = first
		}
		var r slotRange
		if r.first, err = strconv.Atoi(first); err != nil {
			return nil, err
		}
		if r.last, err = strconv.Atoi(last); err != nil {
			return nil, err
		}
		p.slots = append(p.slots, r)
	}
	return p, nil
}

// myself returns the node as seen by itself.
func (n *Node) myself(ctx context.Context) (*peer, error) {
	peers, err := n.peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if p.is("myself") {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s does not list itself", n)
}

func (n *Node) anySlot(ctx context.Context) (int, error) {
	p, err := n.myself(ctx)
	if err != nil {
		return 0, err
	}
	if len(p.slots) == 0 {
		return 0, fmt.Errorf("%s has no slots", n)
	}
	return p.slots[0].first, nil
}

// namedByCluster returns the node of the shard that all running nodes of the Cluster consider a
// primary with slots.
func (sh *Shard) namedByCluster(ctx context.Context) (*Node, error) {
	var named *Node
	for _, witness := range sh.site.nodes {
		if !witness.Alive() {
			continue
		}
		peers, err := witness.peers(ctx)
		if err != nil {
			return nil, err
		}
		var sees *Node
		for _, p := range peers {
			n := sh.site.byPort(p.port)
			if n == nil || !slices.Contains(sh.nodes, n) || !p.is("master") || len(p.slots) == 0 {
				continue
			}
			if p.is("fail") || p.is("fail?") || p.is("handshake") || !p.linked && !p.is("myself") {
				return nil, fmt.Errorf("%s says that %s is %s, linked: %v", witness, n, p.flags, p.linked)
			}
			sees = n
		}
		if sees == nil || named != nil && named != sees {
			return nil, fmt.Errorf("%s names %v, others name %v", witness, sees, named)
		}
		named = sees
	}
	if named == nil {
		return nil, errors.New("no node is up")
	}
	return named, nil
}

// follows checks that the primary knows the node as its replica: it ignores failover requests of
// unknown replicas.
func (n *Node) follows(ctx context.Context, primary *Node) error {
	peers, err := primary.peers(ctx)
	if err != nil {
		return err
	}
	var self, other *peer
	for _, p := range peers {
		switch {
		case p.is("myself"):
			self = p
		case n.site.byPort(p.port) == n:
			other = p
		}
	}
	if self == nil || other == nil || !other.is("slave") || other.is("fail") || other.master != self.id {
		return fmt.Errorf("%s does not know that %s is its replica", primary, n)
	}
	return nil
}

// shardOfSlot returns the shard whose primary owns the slot.
func (s *Site) shardOfSlot(ctx context.Context, slot int) (*Shard, error) {
	for _, sh := range s.shards {
		for _, n := range sh.nodes {
			if !n.Alive() {
				continue
			}
			peers, err := n.peers(ctx)
			if err != nil {
				return nil, err
			}
			for _, p := range peers {
				if owner := s.byPort(p.port); p.is("master") && p.owns(slot) && owner != nil {
					return s.shardOf(owner), nil
				}
			}
			return nil, fmt.Errorf("%s knows no owner of slot %d", n, slot)
		}
	}
	return nil, errors.New("no node is up")
}
