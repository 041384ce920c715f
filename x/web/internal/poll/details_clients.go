package poll

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxClients is with how many connections the list of them is asked for: each is a line of about 300 bytes.
	maxClients = 10_000

	// maxGroups bounds the names that connections are counted by; the others are counted together.
	maxGroups = 20
)

// Clients are the connections of a Redis server, counted.
type Clients struct {
	Total     int
	Blocked   int // wait in a blocking call, such as servers for tasks
	ByName    []ClientGroup
	ByCommand []ClientGroup // the last one that they called
	ByHost    []ClientGroup
	ByAge     []ClientGroup // in the order of age
	Oldest    time.Duration
	OutputMax int64 // bytes that the slowest of them has yet to read
}

// ClientGroup is how many connections have something in common.
type ClientGroup struct {
	Name  string // empty: they have none
	Count int
	Rest  bool // all those that are not listed by name
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
		fields := make(info)
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
		c.OutputMax = max(c.OutputMax, fields.int("omem"))
		age := fields.seconds("age")
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

// hostOf is the host of an address. Connections without one, such as those of miniredis's own, keep what they have.
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

// clientGroups lists the largest groups first, and those that are too many together.
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
