package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const (
	sentinels = 3
	quorum    = 2

	// downAfter is how long a primary must be unresponsive until a Sentinel considers it down.
	downAfter = "1500"
	// failoverTimeout is half of how long Sentinels wait after a failed failover.
	failoverTimeout = "4000"
)

// startSentinel starts a primary, its replicas, and then the Sentinels, which query the primary for
// replicas at the start and then only every ten seconds.
func (s *Site) startSentinel(ctx context.Context) error {
	sh := &Shard{site: s, name: "shard1"}
	s.shards = []*Shard{sh}
	for i := range 3 {
		var config string
		if i > 0 {
			config = fmt.Sprintf("replicaof 127.0.0.1 %d\n", sh.nodes[0].port)
		}
		n, err := s.addNode("redis"+strconv.Itoa(i+1), config)
		if err != nil {
			return err
		}
		sh.nodes = append(sh.nodes, n)
	}
	primary := sh.nodes[0]
	if err := startAll(ctx, sh.nodes); err != nil {
		return err
	}
	err := until(ctx, "the replicas", func(ctx context.Context) error { return sh.inSync(ctx, primary) })
	if err != nil {
		return err
	}
	for i := range sentinels {
		_, err := s.addNode("sentinel"+strconv.Itoa(i+1), fmt.Sprintf(`sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d
sentinel down-after-milliseconds %[1]s %[4]s
sentinel failover-timeout %[1]s %[5]s
sentinel parallel-syncs %[1]s 2
`, masterName, primary.port, quorum, downAfter, failoverTimeout))
		if err != nil {
			return err
		}
	}
	if err := startAll(ctx, s.sentinels); err != nil {
		return err
	}
	err = until(ctx, "the Sentinels to know each other", func(ctx context.Context) error {
		for _, sentinel := range s.sentinels {
			m, err := sentinel.master(ctx)
			if err != nil {
				return err
			}
			if m["num-slaves"] != "2" || m["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
				return fmt.Errorf("%s knows %s replicas and %s other Sentinels", sentinel, m["num-slaves"], m["num-other-sentinels"])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = sh.settled(ctx)
	return err
}

// startAll starts nodes concurrently.
func startAll(ctx context.Context, nodes []*Node) error {
	errs := make(chan error)
	for _, n := range nodes {
		go func() { errs <- n.Start(ctx) }()
	}
	var err error
	for range nodes {
		err = errors.Join(err, <-errs)
	}
	return err
}

// master is the primary as seen by a Sentinel.
func (n *Node) master(ctx context.Context) (map[string]string, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
	err := n.client.Process(ctx, cmd)
	return cmd.Val(), err
}

// namedBySentinels returns the node that all running Sentinels consider the primary, and none
// considers down.
func (s *Site) namedBySentinels(ctx context.Context) (*Node, error) {
	var named *Node
	for _, sentinel := range s.sentinels {
		if !sentinel.Alive() {
			continue
		}
		m, err := sentinel.master(ctx)
		if err != nil {
			return nil, err
		}
		if m["flags"] != "master" {
			return nil, fmt.Errorf("%s says that %s is %s", sentinel, m["port"], m["flags"])
		}
		n := s.byPort(m["port"])
		if n == nil || named != nil && n != named {
			return nil, fmt.Errorf("%s names %s, others name %v", sentinel, m["port"], named)
		}
		named = n
	}
	if named == nil {
		return nil, errors.New("no Sentinel is up")
	}
	return named, nil
}

func (s *Site) byPort(port string) *Node {
	for _, n := range s.nodes {
		if strconv.Itoa(n.port) == port {
			return n
		}
	}
	return nil
}
