package poll

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// Details are what the Redis page shows beyond a snapshot.
type Details struct {
	At      time.Time
	Cluster bool
	Nodes   []NodeDetails // masters and replicas, by address
	Places  []Place       // where the queues are in a Cluster
	Left    int           // so many queues more have a place that was not asked for
}

// NodeDetails are those of one Redis server. What it refused, or does not know, has an error.
type NodeDetails struct {
	Addr     string
	Raw      string // the text of INFO
	Sections []Section
	InfoErr  error

	Keyspace []Keyspace
	Keys     int64 // of the database that is used
	KeysErr  error

	Clients    *Clients // nil if there is an error
	ClientsErr error

	Slow    []SlowEntry // the newest first
	SlowErr error
}

// Role is what the node is: master or slave; empty if it does not tell.
func (n NodeDetails) Role() string { return n.field("role") }

func (n NodeDetails) field(name string) string {
	for _, s := range n.Sections {
		for _, f := range s.Fields {
			if f.Name == name {
				return f.Value
			}
		}
	}
	return ""
}

// Section is a part of INFO.
type Section struct {
	Name   string
	Fields []Field
}

// Field is a line of INFO.
type Field struct{ Name, Value string }

// Keyspace is a database of a node.
type Keyspace struct {
	DB            int
	Keys, Expires int64
	AvgTTL        time.Duration // of the keys that expire; 0 if it is not known
}

// SlowEntry is a call that took Redis long.
type SlowEntry struct {
	ID     int64
	At     time.Time
	Took   time.Duration
	Call   string // the command, and the keys of scripts, without values: these may be payloads
	Client string // address, and name if it has one
}

// Place is where a queue is in a Cluster.
type Place struct {
	Queue string
	Slot  int64
	Nodes []*asynq.ClusterNode // the master first
	Err   error
}

const (
	detailsAge     = 2 * time.Second
	detailsTimeout = 5 * time.Second
	slowEntries    = 32
	maxPlaces      = 200 // queues that are asked for: each is two calls
	placesAtOnce   = 8
)

// detailsCache lets requests at the same time, and shortly after one another, share the answers.
type detailsCache struct {
	mu    sync.Mutex
	last  *Details
	call  *detailsCall // on its way
	ended time.Time    // when last was there
}

type detailsCall struct {
	done    chan struct{}
	details *Details
	err     error
}

// RedisDetails asks Redis for what its page shows. The answer is up to two seconds old. What Redis or a hosted service refuses is
// an error in its place; the error of the call says that Redis cannot be asked at all, or that ctx has ended.
func (p *Poller) RedisDetails(ctx context.Context) (*Details, error) {
	c := &p.details
	c.mu.Lock()
	if c.last != nil && p.cfg.Clock().Sub(c.ended) < detailsAge {
		defer c.mu.Unlock()
		return c.last, nil
	}
	call := c.call
	if call == nil {
		call = &detailsCall{done: make(chan struct{})}
		c.call = call
		go p.askDetails(call) // not under ctx: others may wait for it too
	}
	c.mu.Unlock()
	select {
	case <-call.done:
		return call.details, call.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Poller) askDetails(call *detailsCall) {
	ctx, cancel := context.WithTimeout(context.Background(), detailsTimeout)
	defer cancel()
	var queues []string
	if s := p.Latest(); s != nil {
		for _, q := range s.Queues {
			queues = append(queues, q.Name)
		}
	}
	details, err := ask(ctx, &p.asking, func(ctx context.Context) (*Details, error) { return p.cfg.Source.Details(ctx, queues) })
	c := &p.details
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		details.At = p.cfg.Clock()
		c.last, c.ended = details, details.At
	}
	call.details, call.err = details, err
	c.call = nil
	close(call.done)
}

func (s *source) Details(ctx context.Context, queues []string) (*Details, error) {
	d := new(Details)
	var err error
	d.Nodes, err = eachNode(ctx, s.client, true, askNode)
	if err != nil {
		return nil, err
	}
	if _, d.Cluster = s.client.(*redis.ClusterClient); d.Cluster {
		d.Left = max(0, len(queues)-maxPlaces)
		d.Places = s.places(ctx, queues[:len(queues)-d.Left])
	}
	for _, n := range d.Nodes {
		if n.KeysErr == nil || n.InfoErr == nil {
			return d, nil
		}
	}
	return nil, d.Nodes[0].InfoErr
}

// askNode asks one server for everything. The first answer tells whether it can be asked at all.
func askNode(ctx context.Context, addr string, c node) NodeDetails {
	n := NodeDetails{Addr: addr}
	n.Raw, n.InfoErr = c.Info(ctx).Result()
	n.Sections = sections(n.Raw)
	for _, s := range n.Sections {
		if s.Name == "Keyspace" {
			n.Keyspace = keyspaces(s.Fields)
		}
	}
	if n.Keys, n.KeysErr = c.DBSize(ctx).Result(); n.KeysErr != nil && n.InfoErr != nil {
		n.ClientsErr, n.SlowErr = n.InfoErr, n.InfoErr
		return n
	}
	if clients, err := strconv.Atoi(n.field("connected_clients")); err == nil && clients > maxClients {
		n.ClientsErr = fmt.Errorf("the list of %s clients would be too long", number(clients))
	} else if text, err := c.ClientList(ctx).Result(); err != nil {
		n.ClientsErr = err
	} else {
		n.Clients = newClients(text)
	}
	slow, err := c.SlowLogGet(ctx, slowEntries).Result()
	n.SlowErr = err
	for i := range slow {
		n.Slow = append(n.Slow, newSlowEntry(&slow[i]))
	}
	return n
}

func sections(text string) []Section {
	var all []Section
	for name, f := range infoFields(text) {
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, Section{Name: name})
		}
		s := &all[len(all)-1]
		s.Fields = append(s.Fields, Field{Name: f[0], Value: f[1]})
	}
	return all
}

// keyspaces reads lines such as "db0:keys=12,expires=3,avg_ttl=1000".
func keyspaces(fields []Field) []Keyspace {
	var all []Keyspace
	for _, f := range fields {
		db, ok := strings.CutPrefix(f.Name, "db")
		n, err := strconv.Atoi(db)
		if !ok || err != nil {
			continue
		}
		values := make(info)
		for pair := range strings.SplitSeq(f.Value, ",") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		ttl := min(max(values.int("avg_ttl"), 0), int64(maxDrain/time.Millisecond))
		all = append(all, Keyspace{DB: n, Keys: values.int("keys"), Expires: values.int("expires"), AvgTTL: time.Duration(ttl) * time.Millisecond})
	}
	return all
}

func newSlowEntry(s *redis.SlowLog) SlowEntry {
	client := s.ClientAddr
	if s.ClientName != "" {
		client += " " + s.ClientName
	}
	return SlowEntry{ID: s.ID, At: s.Time, Took: s.Duration, Call: callText(s.Args), Client: client}
}

// callText is a call without its values: the command with its first key, or the hash of a script with all its keys.
func callText(args []string) string {
	if len(args) == 0 {
		return ""
	}
	shown := min(len(args), 2)
	switch name := strings.ToUpper(args[0]); {
	case slices.Contains([]string{"AUTH", "HELLO", "CONFIG", "ACL", "ECHO", "PING"}, name):
		shown = 1 // what follows is no key, and may be a password
	case strings.HasPrefix(name, "EVAL") && len(args) > 2:
		keys, err := strconv.Atoi(args[2])
		if err == nil && keys >= 0 {
			shown = 3 + min(keys, len(args)-3, 8)
		}
	}
	const longest = 80
	words := make([]string, shown)
	for i, arg := range args[:shown] {
		if len(arg) > longest {
			arg = arg[:longest] + "…"
		}
		words[i] = strings.ToValidUTF8(arg, "�")
	}
	if more := len(args) - shown; more > 0 {
		words = append(words, fmt.Sprintf("… %s more", number(more)))
	}
	return strings.Join(words, " ")
}

// places asks for the places of queues, some at once.
func (s *source) places(ctx context.Context, queues []string) []Place {
	found := make([]Place, len(queues))
	inspector := s.inspector.WithContext(ctx)
	var wg sync.WaitGroup
	for part := range slices.Chunk(found, max(1, (len(queues)+placesAtOnce-1)/placesAtOnce)) {
		names := queues[:len(part)]
		queues = queues[len(part):]
		wg.Go(func() {
			for i := range part {
				part[i].Queue = names[i]
				if part[i].Slot, part[i].Err = inspector.ClusterKeySlot(names[i]); part[i].Err == nil {
					part[i].Nodes, part[i].Err = inspector.ClusterNodes(names[i])
				}
			}
		})
	}
	wg.Wait()
	return found
}
