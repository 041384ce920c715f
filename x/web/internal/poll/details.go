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
	"github.com/asynq-go/asynq/x/web/internal/show"

	"github.com/asynq-go/asynq/x/internal/redisinfo"
)

// Details are the data of the Redis page that is not in a snapshot.
type Details struct {
	At      time.Time
	Cluster bool
	Nodes   []NodeDetails // masters and replicas, by address
	Places  []Place       // where the queues are in a Cluster
	Left    int           // number of queues whose place was not requested
}

// NodeDetails are the details of one Redis server. Parts that it refused or does not support have
// an error.
type NodeDetails struct {
	Addr     string
	Raw      string // the text of INFO
	Sections []Section
	InfoErr  error

	Keyspace []Keyspace
	Keys     int64 // in the database of the queues
	KeysErr  error

	Clients    *Clients // nil if ClientsErr is set
	ClientsErr error

	Slow    []SlowEntry // newest first
	SlowErr error
}

// Role returns the role of the node: master or slave; empty if it is not reported.
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
	AvgTTL        time.Duration // of keys with expiry; 0: unknown
}

// SlowEntry is an entry of the slow log.
type SlowEntry struct {
	ID     int64
	At     time.Time
	Took   time.Duration
	Call   string // the command and the keys of scripts, without values, which may be payloads
	Client string // address, and the name if set
}

// Place is the location of a queue in a Cluster.
type Place struct {
	Queue string
	Slot  int64
	Nodes []*asynq.ClusterNode // master first
	Err   error
}

const (
	detailsAge     = 2 * time.Second
	detailsTimeout = 5 * time.Second
	slowEntries    = 32
	maxPlaces      = 200 // queues to locate, with two calls each
	placesAtOnce   = 8
)

// detailsCache shares results between concurrent requests and requests shortly after one another.
type detailsCache struct {
	mu    sync.Mutex
	last  *Details
	call  *detailsCall // in flight
	ended time.Time    // time of last
}

type detailsCall struct {
	done    chan struct{}
	details *Details
	err     error
}

// RedisDetails returns the data of the Redis page. It may be up to two seconds old. Parts that
// Redis or a hosted service refuses have an error of their own. RedisDetails returns an error only
// if Redis is unreachable or ctx ends.
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
		go p.askDetails(call) // independent of ctx: other requests may wait for it as well
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

// askNode reads everything from one server. The first response determines whether the server is
// reachable.
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
		n.ClientsErr = fmt.Errorf("too many clients to list: %s", show.Number(int64(clients)))
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
	for name, f := range redisinfo.Lines(text) {
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, Section{Name: name})
		}
		s := &all[len(all)-1]
		s.Fields = append(s.Fields, Field{Name: f[0], Value: f[1]})
	}
	return all
}

// keyspaces parses lines such as "db0:keys=12,expires=3,avg_ttl=1000".
func keyspaces(fields []Field) []Keyspace {
	var all []Keyspace
	for _, f := range fields {
		db, ok := strings.CutPrefix(f.Name, "db")
		n, err := strconv.Atoi(db)
		if !ok || err != nil {
			continue
		}
		values := make(redisinfo.Fields)
		for pair := range strings.SplitSeq(f.Value, ",") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		ttl := min(max(values.Int("avg_ttl"), 0), int64(maxDrain/time.Millisecond))
		all = append(all, Keyspace{DB: n, Keys: values.Int("keys"), Expires: values.Int("expires"), AvgTTL: time.Duration(ttl) * time.Millisecond})
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

// callText returns a command without its values: with its first key, or for a script the hash and
// all keys.
func callText(args []string) string {
	if len(args) == 0 {
		return ""
	}
	shown := min(len(args), 2)
	switch name := strings.ToUpper(args[0]); {
	case slices.Contains([]string{"AUTH", "HELLO", "CONFIG", "ACL", "ECHO", "PING"}, name):
		shown = 1 // the next argument is not a key and may be a password
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
		words = append(words, fmt.Sprintf("… %s more", show.Number(int64(more))))
	}
	return strings.Join(words, " ")
}

// places locates the queues, several at a time.
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
