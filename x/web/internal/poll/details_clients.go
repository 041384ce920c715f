package poll

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/internal/redisinfo"
)

const (
	// maxClients is the maximum number of connections that are listed: each is a line of about 300
	// bytes.
	maxClients = 10_000

	// maxGroups bounds the groups of connections; the others are counted together.
	maxGroups = 20
)

// Clients are the counted connections of a Redis server.
type Clients struct {
	Total     int
	Blocked   int // in a blocking call, such as servers that wait for tasks
	ByName    []ClientGroup
	ByCommand []ClientGroup // by their last command
	ByHost    []ClientGroup
	ByAge     []ClientGroup // in the order of age
	Oldest    time.Duration
	OutputMax int64 // largest output buffer in bytes
}

// ClientGroup is a number of connections with a common property.
type ClientGroup struct {
	Name  string // empty: no name
	Count int
	Rest  bool // all others
}

var ages = []struct {
	name string
	end  time.Duration
}{{"less than a minute", time.Minute}, {"a minute to an hour", time.Hour}, {"an hour to a day", 24 * time.Hour}, {"more than a day", 0}}

// newClients counts the lines of CLIENT LIST.
func newClients(text string) *Clients {
	c := new(Clients)
	names, commands, hosts := make(map[string]int), make(map[string]int), make(map[string]int)
	byAge := make([]int, len(ages))
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := make(redisinfo.Fields)
		for pair := range strings.SplitSeq(line, " ") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				fields[name] = value
			}
		}
		c.Total++
		names[shortened(fields["name"])]++
		commands[shortened(fields["cmd"])]++
		hosts[shortened(hostOf(fields["addr"]))]++
		if strings.Contains(fields["flags"], "b") {
			c.Blocked++
		}
		c.OutputMax = max(c.OutputMax, fields.Int("omem"))
		age := fields.Seconds("age")
		c.Oldest = max(c.Oldest, age)
		for i, a := range ages {
			if a.end == 0 || age < a.end {
				byAge[i]++
				break
			}
		}
	}
	c.ByName, c.ByCommand, c.ByHost = clientGroups(names), clientGroups(commands), clientGroups(hosts)
	for i, a := range ages {
		c.ByAge = append(c.ByAge, ClientGroup{Name: a.name, Count: byAge[i]})
	}
	return c
}

// hostOf returns the host of an address. An address without a host, as in miniredis, is returned as
// it is.
func hostOf(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if _, err := strconv.Atoi(port); err != nil {
		return addr
	}
	return host
}

func shortened(name string) string {
	const longest = 80
	if len(name) > longest {
		return strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return name
}

// clientGroups returns the groups, largest first, with the ones beyond maxGroups combined.
func clientGroups(counts map[string]int) []ClientGroup {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var groups []ClientGroup
	rest := 0
	for n, name := range names {
		if n >= maxGroups {
			rest += counts[name]
			continue
		}
		groups = append(groups, ClientGroup{Name: name, Count: counts[name]})
	}
	if rest > 0 {
		groups = append(groups, ClientGroup{Count: rest, Rest: true})
	}
	return groups
}
