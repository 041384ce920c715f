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

	// downAfter is how long a primary must be silent until a Sentinel takes it for down.
	downAfter = "1500"
	// failoverTimeout is half of how long the Sentinels wait before they try again after a failover that came to nothing.
	failoverTimeout = "4000"
)

// startSentinel starts a primary, its replicas, and then the Sentinels: those ask the primary for its replicas at first sight, and
// after that only every ten seconds.
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
	if err := startAll(ctx, s.judges); err != nil {
		return err
	}
	err = until(ctx, "the Sentinels to know each other", func(ctx context.Context) error {
		for _, judge := range s.judges {
			m, err := judge.master(ctx)
			if err != nil {
				return err
			}
			if m["num-slaves"] != "2" || m["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
				return fmt.Errorf("%s knows %s replicas and %s other Sentinels", judge, m["num-slaves"], m["num-other-sentinels"])
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

// startAll starts nodes at the same time.
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

// master is what a Sentinel knows of the primary.
func (n *Node) master(ctx context.Context) (map[string]string, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
	err := n.client.Process(ctx, cmd)
	return cmd.Val(), err
}

// namedBySentinels is the node that all Sentinels that are up take for the primary, without any of them in doubt.
func (s *Site) namedBySentinels(ctx context.Context) (*Node, error) {
	var named *Node
	for _, judge := range s.judges {
		if !judge.Alive() {
			continue
		}
		m, err := judge.master(ctx)
		if err != nil {
			return nil, err
		}
		if m["flags"] != "master" {
			return nil, fmt.Errorf("%s says that %s is %s", judge, m["port"], m["flags"])
		}
		n := s.byPort(m["port"])
		if n == nil || named != nil && n != named {
			return nil, fmt.Errorf("%s names %s, others name %v", judge, m["port"], named)
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
