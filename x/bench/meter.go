package main

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// figures are what one lane measured, in all.
type figures struct {
	Tasks      int      `json:"tasks"`
	Seconds    float64  `json:"seconds"`           // until the last task was handled, or enqueued
	RedisCPU   float64  `json:"redis_cpu_seconds"` // of the main thread, until the last task was settled
	OwnCPU     float64  `json:"own_cpu_seconds"`   // of the process with the library in it
	Mallocs    float64  `json:"mallocs"`
	Commands   float64  `json:"redis_commands"` // those inside of scripts included
	RoundTrips float64  `json:"round_trips"`
	Latency    *latency `json:"latency,omitempty"`
	Trend      *trend   `json:"trend,omitempty"`
}

// latency is how long tasks waited, in milliseconds.
type latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// newLatency sums up what was seen.
func newLatency(seen []time.Duration) *latency {
	ms := make([]float64, len(seen))
	for i, d := range seen {
		ms[i] = float64(d) / float64(time.Millisecond)
	}
	return &latency{P50: quantile(ms, 0.5), P99: quantile(ms, 0.99), Max: quantile(ms, 1)}
}

// perTask spreads a total over the tasks.
func (f *figures) perTask(total float64) float64 { return total / float64(max(f.Tasks, 1)) }

// meter reads what a lane costs.
type meter struct {
	conn   redis.UniversalClient // of its own: not counted as a round trip
	trips  *roundTrips
	begun  reading
	clock  time.Time
	passed time.Duration // 0 while the clock runs
}

// reading is what the meter read at one time.
type reading struct {
	redisCPU, commands float64
	trips              int64
	cpu                time.Duration
	mallocs            uint64
}

// start takes the first reading and starts the clock. What was left by preparations is collected before.
func (m *meter) start(ctx context.Context) (err error) {
	runtime.GC()
	if m.begun, err = m.read(ctx); err != nil {
		return err
	}
	m.clock = time.Now()
	return nil
}

// stop stops the clock, the first time it is called.
func (m *meter) stop() {
	if m.passed == 0 {
		m.passed = time.Since(m.clock)
	}
}

// end stops the clock unless that is done, and says what n tasks took since start.
func (m *meter) end(ctx context.Context, n int) (*figures, error) {
	m.stop()
	now, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return &figures{
		Tasks:      n,
		Seconds:    m.passed.Seconds(),
		RedisCPU:   now.redisCPU - m.begun.redisCPU,
		OwnCPU:     (now.cpu - m.begun.cpu).Seconds(),
		Mallocs:    float64(now.mallocs - m.begun.mallocs),
		Commands:   now.commands - m.begun.commands,
		RoundTrips: float64(now.trips - m.begun.trips),
	}, nil
}

func (m *meter) read(ctx context.Context) (r reading, err error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.mallocs, r.cpu, r.trips = mem.Mallocs, processCPU(), m.trips.Load()
	info, err := m.conn.Info(ctx, "cpu").Result()
	if err != nil {
		return r, err
	}
	r.redisCPU = redisCPU(info)
	if info, err = m.conn.Info(ctx, "commandstats").Result(); err != nil {
		return r, err
	}
	r.commands = commandCalls(info)
	return r, nil
}

// redisCPU returns the CPU time, in seconds, that INFO cpu tells of: the main thread's where the server says so.
func redisCPU(info string) float64 {
	total := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		text := infoField(info, name+"_main_thread")
		if text == "" {
			text = infoField(info, name)
		}
		seconds, _ := strconv.ParseFloat(text, 64) // 0 where the server does not say
		total += seconds
	}
	return total
}

// commandCalls returns how many commands INFO commandstats tells of, other than INFO.
func commandCalls(info string) float64 {
	total := 0.0
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || name == "cmdstat_info" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		calls, _ := strconv.ParseFloat(number, 64) // digits, as Redis prints them
		total += calls
	}
	return total
}
