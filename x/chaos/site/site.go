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

// Kind is how the servers of a site belong together.
type Kind string

// Kinds of sites.
const (
	Standalone Kind = "standalone" // one server
	Sentinel   Kind = "sentinel"   // a primary, two replicas, three Sentinels with a quorum of two
	Cluster    Kind = "cluster"    // three shards of a primary and a replica each
)

// Fsync is when a server writes its log of changes, the AOF, to the disk for certain.
type Fsync string

// What Redis calls appendfsync.
const (
	EverySecond Fsync = "everysec" // a second or two after a write was answered
	Always      Fsync = "always"   // before it is answered
	Never       Fsync = "never"    // there is no AOF: what a server has is gone when it ends
)

// masterName is the name of the primary among the Sentinels.
const masterName = "chaos"

// ErrNotHere is what a method returns that the site's kind, Redis's version or the operating system does not allow.
var ErrNotHere = errors.New("not possible on this site")

// Options say what to start.
type Options struct {
	Kind Kind

	// Dir holds a folder for each server. It is made if it is not there, must be empty, and stays. If "", a temporary directory is
	// used, and removed by Close. On a disk that may stall for more than a second a directory in memory is better: a primary that
	// waits for its disk is taken for dead.
	Dir string

	// Fsync is EverySecond if empty.
	Fsync Fsync

	// MinReplicas is how many replicas must have answered a primary within the last second or it refuses writes
	// (min-replicas-to-write, with a max-lag of 1). A Cluster's primaries have one replica each: with 1, a shard whose primary has
	// crashed takes no writes until the old one is back as a replica.
	MinReplicas int

	// Binary is the server program, redis-server if empty.
	Binary string
}

// Address is what a client needs to connect to a site.
type Address struct {
	Kind   Kind     `json:"kind"`
	Addrs  []string `json:"addrs"`            // host:port of the server, of all Sentinels, or of all nodes of the Cluster
	Master string   `json:"master,omitempty"` // what the Sentinels call the primary
}

// Site is a running set of Redis servers.
type Site struct {
	opts    Options
	version version
	ownDir  bool
	shards  []*Shard
	nodes   []*Node // of all shards
	judges  []*Node // the Sentinels
	client  redis.UniversalClient
	ports   []int // that no other site of this process takes

	closing chan struct{}
	closed  sync.Once
	loops   sync.WaitGroup
}

// startTries is how many sets of ports are tried. Another process may take a port between the look and the start.
const startTries = 4

// Start starts a site, and returns when it is ready: all servers agree on who is who, and all replicas are in sync. That takes less
// than a second for one server, and some seconds for the other kinds. The context bounds the start only.
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
	return nil, fmt.Errorf("site: starting a %s: %w", opts.Kind, err)
}

// emptyDir returns the absolute path of an empty directory: the one that is asked for, or a temporary one.
func emptyDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "asynq-site-")
	}
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if len(list) > 0 {
		return "", fmt.Errorf("%s is not empty: name another directory for the servers", dir)
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
		err = fmt.Errorf("no such kind of site: %q", s.opts.Kind)
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

// newClient returns a client of the kind that the site is made for.
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

// Close ends all servers at once, waits until they are gone, and removes the directory if Options named none. It may be called
// more than once.
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
		_ = s.client.Close() // it holds nothing but connections to what ends now
	}
	for _, n := range append(s.judges, s.nodes...) {
		n.close()
	}
	returnPorts(s.ports)
}

// Address is what clients connect to. It stays the same whatever happens to the site.
func (s *Site) Address() Address {
	a := Address{Kind: s.opts.Kind}
	listed := s.nodes
	if s.opts.Kind == Sentinel {
		listed, a.Master = s.judges, masterName
	}
	for _, n := range listed {
		a.Addrs = append(a.Addrs, n.addr)
	}
	return a
}

// Client is a client for the use of the harness itself, that finds its way as those of the processes under test do. Close closes it.
func (s *Site) Client() redis.UniversalClient { return s.client }

// Nodes are the servers that hold data, running or not.
func (s *Site) Nodes() []*Node { return s.nodes }

// Sentinels are the Sentinel processes, none unless the site is of that kind.
func (s *Site) Sentinels() []*Node { return s.judges }

// Dir is where the servers keep their files: one folder each.
func (s *Site) Dir() string { return s.opts.Dir }

// addNode makes a node of a name and a configuration of its own, in a folder of its own. It is not started.
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
	// What an attempt with other ports has left there would be taken for this node's.
	if err := errors.Join(os.RemoveAll(n.dir), os.MkdirAll(n.dir, 0o750)); err != nil {
		return nil, err
	}
	if n.sentinel {
		s.judges = append(s.judges, n)
	} else {
		s.nodes = append(s.nodes, n)
	}
	return n, os.WriteFile(filepath.Join(n.dir, configFile), []byte(text), 0o600)
}

// config is what all servers with data have in their configuration file.
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
		// A rewritten file has nothing in common with the samples of its sizes.
		text += "auto-aof-rewrite-percentage 0\n"
	}
	return text
}

// version is that of a server program.
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
		return version{}, fmt.Errorf("site: asking %s for its version (install redis-server 6.2 or newer): %w", binary, err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return version{}, fmt.Errorf("site: %s does not tell its version: %q", binary, out)
	}
	major, _ := strconv.Atoi(string(m[1])) // the pattern has digits only
	minor, _ := strconv.Atoi(string(m[2]))
	return version{major, minor}, nil
}
