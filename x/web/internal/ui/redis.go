package ui

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

type redisBody struct {
	Known   bool // INFO is available
	Redis   poll.Redis
	Causes  []causeBox
	Figures []figure
	Memory  template.HTML // empty: no memory limit
	Charts  []chart
	Span    spanChoice
	Facts   []fact
	Error   string // error of the details
	Details *poll.Details
	Nodes   []nodeRow
}

// fact is a row of a list of properties.
type fact struct{ Name, Value, Note, Class string }

// nodeRow is one of several Redis servers.
type nodeRow struct {
	Addr, Role, Error, Version string
	Memory, MaxMemory, Keys    int64
	Clients                    int
	Ops                        float64
	Uptime                     time.Duration
}

// detailsShown caches details for background reloads: they are refreshed every detailsAge,
// regardless of the number of tabs.
type detailsShown struct {
	mu   sync.Mutex
	last *poll.Details
}

const detailsAge = 15 * time.Second

// redisDetails returns new details when a user opens the page, and cached ones for a background
// reload.
func (u *UI) redisDetails(r *http.Request) (*poll.Details, error) {
	d := &u.details
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	if last != nil && r.Header.Get("HX-Request") != "" && u.now().Sub(last.At) < detailsAge {
		return last, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	details, err := u.Poller.RedisDetails(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = details
	return details, nil
}

// redis is the page of Redis.
func (u *UI) redis(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := redisBody{Redis: s.Redis, Known: s.Redis.Version != "" || s.Redis.Memory > 0, Span: u.spanOf(r, seenSpans)}
	body.Causes = u.causesThat(func(c *health.Cause) bool { return c.Link.Page == health.PageRedis })
	details, err := u.redisDetails(r)
	if err != nil {
		body.Error = sentence(show.RedisError(err))
		details = new(poll.Details)
	}
	body.Details = details
	f := fieldsOf(details)
	lines := u.Poller.History("", []poll.Metric{poll.RedisMemory, poll.RedisOps}, sparkSpan)
	body.Figures = redisFigures(s.Redis, lines)
	if s.Redis.MaxMemory > 0 {
		body.Memory = meter(s.Redis.Memory, s.Redis.MaxMemory)
	}
	body.Facts = redisFacts(s.Redis, f, u.now())
	if len(details.Nodes) > 1 {
		body.Nodes = nodeRows(details)
	}
	body.Charts, err = u.chartsOf(r.Context(), trend.Subject{}, &body.Span, []chartSpec{
		{"memory", "Memory", "B", "redis_memory", false},
		{"ops", "Commands per second", "/s", "redis_ops", false},
	})
	return &view{Template: "redis", Title: "Redis", Nav: "/redis", Body: body}, err
}

// nodeFields are the INFO fields of all masters.
type nodeFields []map[string]string

func fieldsOf(d *poll.Details) nodeFields {
	var all nodeFields
	for _, n := range d.Nodes {
		if n.InfoErr != nil || n.Role() == "slave" {
			continue
		}
		fields := make(map[string]string)
		for _, s := range n.Sections {
			for _, f := range s.Fields {
				fields[f.Name] = f.Value
			}
		}
		all = append(all, fields)
	}
	return all
}

// sum adds up a number over all nodes. It returns false if no node has it.
func (f nodeFields) sum(name string) (float64, bool) {
	sum, known := 0.0, false
	for _, fields := range f {
		if n, err := strconv.ParseFloat(fields[name], 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			sum += n
			known = true
		}
	}
	return sum, known
}

// each returns the distinct values of all nodes.
func (f nodeFields) each(name string) string {
	var values []string
	for _, fields := range f {
		if v := fields[name]; v != "" && !strings.Contains("\n"+strings.Join(values, "\n")+"\n", "\n"+v+"\n") {
			values = append(values, v)
		}
	}
	return strings.Join(values, ", ")
}

func redisFigures(r poll.Redis, lines poll.Series) []figure {
	memory := figure{Name: "Memory", Value: show.Bytes(r.Memory), Note: "no maxmemory limit", Spark: spark("latency", lines.Values[poll.RedisMemory])}
	if r.MaxMemory > 0 {
		memory.Note = show.Percent(float64(r.Memory), float64(r.MaxMemory)) + " of " + show.Bytes(r.MaxMemory)
	}
	commands := figure{Name: "Commands", Value: show.PerSecond(r.OpsPerSecond), Unit: "/s", Note: "including commands in scripts", Spark: spark("pending", lines.Values[poll.RedisOps])}
	if r.Version == "" && r.Memory == 0 { // not reported by an embedded Redis
		memory.Value, memory.Note, commands.Value, commands.Unit, commands.Note = "–", "not reported", "–", "", "not reported"
	}
	return []figure{
		memory,
		commands,
		{Name: "Clients", Value: show.Number(int64(r.Clients)), Note: show.Number(int64(r.BlockedClients)) + " blocked"},
		{Name: "Keys", Value: show.Number(r.Keys), Note: "in the database of the queues"},
	}
}

// redisFacts returns the properties of Redis that matter for queues.
func redisFacts(r poll.Redis, f nodeFields, now time.Time) []fact {
	var facts []fact
	add := func(name, value, note, class string) {
		if value != "" {
			facts = append(facts, fact{name, value, note, class})
		}
	}
	version := r.Version
	if server := f.each("server_name"); server != "" { // Valkey also reports a Redis version
		version = strings.TrimSpace(server + " " + f.each(server+"_version"))
	}
	add("Version", version, r.Mode, "")
	if r.Uptime > 0 {
		add("Uptime", show.Duration(r.Uptime), "", "")
	}
	if r.MaxMemoryPolicy != "" {
		note, class := "a full Redis rejects new tasks and loses none", ""
		if r.MaxMemoryPolicy != "noeviction" {
			note, class = "a full Redis may evict data of queues: set noeviction", "wrong"
		}
		add("Eviction policy", r.MaxMemoryPolicy, note, class)
	}
	if r.MemoryPeak > 0 {
		add("Peak memory", show.Bytes(r.MemoryPeak), "since Redis started", "")
	}
	if rss, ok := f.sum("used_memory_rss"); ok && r.Memory > 0 {
		add("Fragmentation", strconv.FormatFloat(rss/float64(r.Memory), 'f', 2, 64), show.Bytes(int64(rss))+" allocated by the system", "")
	}
	hits, ok := f.sum("keyspace_hits")
	misses, _ := f.sum("keyspace_misses")
	if ok && hits+misses > 0 {
		add("Hit rate", show.Percent(hits, hits+misses), "of key lookups since Redis started", "")
	}
	if evicted, ok := f.sum("evicted_keys"); ok {
		class := ""
		if evicted > 0 {
			class = "wrong"
		}
		add("Evicted keys", show.Number(int64(evicted)), "since Redis started", class)
	}
	if expired, ok := f.sum("expired_keys"); ok {
		add("Expired keys", show.Number(int64(expired)), "since Redis started", "")
	}
	facts = append(facts, persistence(f, now)...)
	facts = append(facts, replication(f)...)
	if refused, ok := f.sum("rejected_connections"); ok && refused > 0 {
		add("Rejected connections", show.Number(int64(refused)), "maxclients was reached", "wrong")
	}
	return facts
}

// persistence returns the state of RDB and AOF. Without persistence, queues are lost when Redis
// stops.
func persistence(f nodeFields, now time.Time) []fact {
	if f.each("rdb_last_bgsave_status") == "" && f.each("aof_enabled") == "" {
		return nil // not reported
	}
	snapshot := fact{Name: "Snapshot (RDB)", Value: f.each("rdb_last_bgsave_status")}
	if snapshot.Value != "ok" {
		snapshot.Class = "wrong"
	}
	if len(f) == 1 {
		if at, err := strconv.ParseInt(f[0]["rdb_last_save_time"], 10, 64); err == nil && at > 0 {
			snapshot.Note = "last save " + show.From(now, time.Unix(at, 0))
		}
	}
	if changes, ok := f.sum("rdb_changes_since_last_save"); ok {
		snapshot.Note = strings.TrimPrefix(snapshot.Note+", "+show.Plural(int64(changes), "change")+" since", ", ")
	}
	journal := fact{Name: "Append-only file (AOF)", Value: "off", Note: "a crash loses all changes since the last snapshot"}
	if strings.Contains(f.each("aof_enabled"), "1") {
		journal = fact{Name: "Append-only file (AOF)", Value: f.each("aof_last_write_status"), Note: "last write"}
		if journal.Value != "ok" {
			journal.Class = "wrong"
		}
		if size, ok := f.sum("aof_current_size"); ok {
			journal.Note += ", " + show.Bytes(int64(size))
		}
	}
	return []fact{snapshot, journal}
}

func replication(f nodeFields) []fact {
	replicas, ok := f.sum("connected_slaves")
	if !ok {
		return nil
	}
	line := fact{Name: "Replicas", Value: show.Number(int64(replicas))}
	if replicas == 0 {
		line.Note = "no failover if this node fails"
	}
	return []fact{line}
}

func nodeRows(d *poll.Details) []nodeRow {
	rows := make([]nodeRow, len(d.Nodes))
	for i, n := range d.Nodes {
		row := nodeRow{Addr: n.Addr, Role: map[string]string{"master": "master", "slave": "replica"}[n.Role()], Keys: n.Keys}
		if n.InfoErr != nil {
			row.Error = sentence(show.RedisError(n.InfoErr))
		}
		of := func(name string) float64 {
			for _, s := range n.Sections {
				for _, f := range s.Fields {
					if f.Name == name {
						v, _ := strconv.ParseFloat(f.Value, 64) // 0 if not a number
						return v
					}
				}
			}
			return 0
		}
		row.Memory, row.MaxMemory, row.Clients, row.Ops = int64(of("used_memory")), int64(of("maxmemory")), int(of("connected_clients")), of("instantaneous_ops_per_sec")
		row.Uptime = time.Duration(min(of("uptime_in_seconds"), 1e9)) * time.Second
		rows[i] = row
	}
	return rows
}

// took formats the duration of a slow command in milliseconds.
func took(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
