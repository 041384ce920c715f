package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Kind is the topology of a site.
type Kind string

// Kinds of sites.
const (
	Standalone Kind = "standalone" // one server
	Sentinel   Kind = "sentinel"   // a primary, two replicas, three Sentinels with a quorum of two
	Cluster    Kind = "cluster"    // three shards of a primary and a replica each
)

// Fsync is the appendfsync policy of the AOF.
type Fsync string

// Values of appendfsync.
const (
	EverySecond Fsync = "everysec" // up to two seconds after a write is acknowledged
	Always      Fsync = "always"   // before a write is acknowledged
	Never       Fsync = "never"    // no AOF: all data is lost when a server exits
)

// masterName is the name of the primary in the Sentinels.
const masterName = "chaos"

// ErrUnsupported is returned by methods that the kind of the site, the version of Redis or the
// operating system does not support.
var ErrUnsupported = errors.New("not possible on this site")

// Options configures Start.
type Options struct {
	Kind Kind

	// Dir holds a directory per server. It is created if needed, must be empty, and is kept. If "",
	// a temporary directory is used, and removed by Close. If the disk may stall for more than a
	// second, use a directory in memory: a primary that waits for its disk is considered down.
	Dir string

	// Fsync is EverySecond if empty.
	Fsync Fsync

	// MinReplicas is the number of replicas that must have responded within the last second, or the
	// primary rejects writes (min-replicas-to-write, with a max-lag of 1). Primaries of a Cluster
	// have one replica each: with 1, a shard whose primary crashed rejects writes until the old one
	// is back as a replica.
	MinReplicas int

	// Binary is the server program. The default is redis-server.
	Binary string
}

// Address is the address of a site for clients.
type Address struct {
	Kind   Kind     `json:"kind"`
	Addrs  []string `json:"addrs"`            // host:port of the server, of all Sentinels, or of all nodes of the Cluster
	Master string   `json:"master,omitempty"` // name of the primary in the Sentinels
}

// Site is a running set of Redis servers.
type Site struct {
	opts      Options
	version   version
	ownDir    bool
	shards    []*Shard
	nodes     []*Node // all shards
	sentinels []*Node // the Sentinels
	client    redis.UniversalClient
	ports     []int // reserved in this process

	closing chan struct{}
	closed  sync.Once
	loops   sync.WaitGroup
}

// startTries is the number of attempts to start with other ports. Another process may take a port
// in between.
const startTries = 4

// Start starts a site and returns when it is healthy: all servers agree on their roles, and all
// replicas are in sync. That takes less than a second for a standalone server, and some seconds
// otherwise. The context limits the start only.
func Start(ctx context.Context, opts Options) (*Site, error) {
	if opts.Binary == "" {
		opts.Binary = "redis-server"
	}
	if opts.Fsync == "" {
		opts.Fsync = EverySecond
	}
	v, err := versionOf(ctx, opts.Binary)
	if err != nil {
		return nil, err
	}
	ownDir := opts.Dir == ""
	if opts.Dir, err = emptyDir(opts.Dir); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	for range startTries {
		s := &Site{opts: opts, version: v, ownDir: ownDir, closing: make(chan struct{})}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		s.end()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	if ownDir {
		err = errors.Join(err, os.RemoveAll(opts.Dir))
	}
	return nil, fmt.Errorf("site: start %s: %w", opts.Kind, err)
}

// emptyDir returns the absolute path of an empty directory: the given one, or a temporary one.
func emptyDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "asynq-site-")
	}
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if len(list) > 0 {
		return "", fmt.Errorf("%s is not empty: use another directory", dir)
	}
	return filepath.Abs(dir)
}

func (s *Site) start(ctx context.Context) error {
	var err error
	switch s.opts.Kind {
	case Standalone:
		err = s.startStandalone(ctx)
	case Sentinel:
		err = s.startSentinel(ctx)
	case Cluster:
		err = s.startCluster(ctx)
	default:
		err = fmt.Errorf("unknown kind of site: %q", s.opts.Kind)
	}
	if err != nil {
		return err
	}
	s.client = s.newClient()
	if s.opts.Fsync == EverySecond {
		s.loops.Go(s.sampleAOFs)
	}
	return nil
}

func (s *Site) startStandalone(ctx context.Context) error {
	node, err := s.addNode("redis", "")
	if err != nil {
		return err
	}
	s.shards = []*Shard{{site: s, name: "shard1", nodes: []*Node{node}}}
	return node.Start(ctx)
}

// newClient returns a client for the kind of the site.
func (s *Site) newClient() redis.UniversalClient {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	addrs := s.Address().Addrs
	switch s.opts.Kind {
	case Sentinel:
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: masterName, SentinelAddrs: addrs, ContextTimeoutEnabled: true,
		})
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, ContextTimeoutEnabled: true, MaxRedirects: 8, MaintNotificationsConfig: quiet,
		})
	default:
		return redis.NewClient(&redis.Options{Addr: addrs[0], ContextTimeoutEnabled: true, MaintNotificationsConfig: quiet})
	}
}

// Close kills all servers, waits until they have exited, and removes a temporary directory. It may
// be called more than once.
func (s *Site) Close() error {
	var err error
	s.closed.Do(func() {
		s.end()
		if s.ownDir {
			err = os.RemoveAll(s.opts.Dir)
		}
	})
	return err
}

func (s *Site) end() {
	close(s.closing)
	s.loops.Wait()
	if s.client != nil {
		_ = s.client.Close() // only connections to the stopped servers
	}
	for _, n := range append(s.sentinels, s.nodes...) {
		n.close()
	}
	returnPorts(s.ports)
}

// Address returns the address for clients. It is fixed.
func (s *Site) Address() Address {
	a := Address{Kind: s.opts.Kind}
	listed := s.nodes
	if s.opts.Kind == Sentinel {
		listed, a.Master = s.sentinels, masterName
	}
	for _, n := range listed {
		a.Addrs = append(a.Addrs, n.addr)
	}
	return a
}

// Client returns a client for the harness, which follows failovers. Close closes it.
func (s *Site) Client() redis.UniversalClient { return s.client }

// Nodes returns the servers that hold data, running or not.
func (s *Site) Nodes() []*Node { return s.nodes }

// Sentinels returns the Sentinels, if the site has any.
func (s *Site) Sentinels() []*Node { return s.sentinels }

// Dir returns the directory of the servers.
func (s *Site) Dir() string { return s.opts.Dir }

// addNode adds a node with its own name, configuration and directory, without starting it.
func (s *Site) addNode(name, config string) (*Node, error) {
	port, err := takePort()
	if err != nil {
		return nil, err
	}
	s.ports = append(s.ports, port)
	n := newNode(s, name, port)
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", port, strconv.Quote(n.dir)) + config
	if n.sentinel = config != "" && config[0] == 's'; !n.sentinel {
		text += s.config()
	}
	// Remove the files of an earlier attempt with other ports.
	if err := errors.Join(os.RemoveAll(n.dir), os.MkdirAll(n.dir, 0o750)); err != nil {
		return nil, err
	}
	if n.sentinel {
		s.sentinels = append(s.sentinels, n)
	} else {
		s.nodes = append(s.nodes, n)
	}
	return n, os.WriteFile(filepath.Join(n.dir, configFile), []byte(text), 0o600)
}

// config returns the common configuration of servers with data.
func (s *Site) config() string {
	log := "appendonly no"
	if s.opts.Fsync != Never {
		log = "appendonly yes\nappendfsync " + string(s.opts.Fsync)
	}
	text := fmt.Sprintf(`save ""
%s
aof-load-truncated yes
loglevel notice
repl-diskless-sync yes
repl-diskless-sync-delay 0
repl-ping-replica-period 1
repl-backlog-size 16mb
min-replicas-to-write %d
min-replicas-max-lag 1
`, log, s.opts.MinReplicas)
	if s.version.atLeast(7, 0) {
		text += "enable-debug-command yes\nshutdown-timeout 0\n"
	} else {
		// A rewritten file would invalidate the size samples.
		text += "auto-aof-rewrite-percentage 0\n"
	}
	return text
}

// version is the version of a server program.
type version struct{ major, minor int }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

var versionPattern = regexp.MustCompile(`\bv=(\d+)\.(\d+)`)

func versionOf(ctx context.Context, binary string) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return version{}, fmt.Errorf("site: cannot run %s (install redis-server 6.2 or newer): %w", binary, err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return version{}, fmt.Errorf("site: cannot parse the version of %s: %q", binary, out)
	}
	major, _ := strconv.Atoi(string(m[1])) // matches digits only
	minor, _ := strconv.Atoi(string(m[2]))
	return version{major, minor}, nil
}
