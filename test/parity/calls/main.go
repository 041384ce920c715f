// Command calls makes thousands of calls with usual and unusual arguments, and prints their
// effects. It is written for the reference; the tests of package parity also build it with this
// library, and compare the output.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// parallel is the number of concurrent rows. Most rows mostly wait.
const parallel = 64

// rowLimit is the timeout of a row.
const rowLimit = 40 * time.Second

// row is a use of the library with its own Redis database.
type row struct {
	name string
	do   func(s *site)
}

var rows []row

// add adds a row. Names are unique and resemble the call.
func add(name string, do func(s *site)) { rows = append(rows, row{name: name, do: do}) }

// Report is the output of a row, which the tests decode.
type Report struct {
	Row     string
	Elapsed time.Duration
	Seen    []Observation
}

// Observation is one observation of a row.
type Observation struct{ Aspect, Value string }

func main() {
	addr := flag.String("redis", "", "address of a Redis with a database for each row; empty: an embedded one")
	prefix := flag.String("prefix", "", "run only rows whose names begin so")
	flag.Parse()

	redis.SetLogger(noLog{})
	addRows()
	names := make(map[string]bool)
	for _, r := range rows {
		if names[r.name] {
			fmt.Fprintf(os.Stderr, "two rows have the name %q\n", r.name)
			os.Exit(1)
		}
		names[r.name] = true
	}
	out := json.NewEncoder(os.Stdout)
	if *addr == "" {
		mini := miniredis.NewMiniRedis()
		if err := mini.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer mini.Close()
		*addr = mini.Addr()
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, r := range rows {
		if !strings.HasPrefix(r.name, *prefix) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			report := run(r, *addr, i)
			mu.Lock()
			_ = out.Encode(report)
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
}

// noLog suppresses the log messages of go-redis about failed connections.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

func addRows() {
	addOptionRows()
	addTaskRows()
	addEnqueueRows()
	addInspectorRows()
	addListRows()
	addServerRows()
	addHandlerRows()
	addSchedulerRows()
	addMuxRows()
	addRedisRows()
	addValueRows()
}

// run runs a row on its own database, because some rows leave servers running.
func run(r row, addr string, db int) Report {
	s := &site{addr: addr, db: db, redis: redis.NewClient(&redis.Options{Addr: addr, DB: db}), start: time.Now()}
	defer s.redis.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.guard("", func() { r.do(s) })
		for _, f := range slices.Backward(s.cleanups) {
			s.guard("cleanup ", f)
		}
		if !s.noDump {
			s.dump()
		}
	}()
	select {
	case <-done:
	case <-time.After(rowLimit):
		return Report{Row: r.name, Seen: []Observation{{"hangs", "true"}}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Report{Row: r.name, Elapsed: time.Since(s.start), Seen: s.seen}
}
