package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// figures are the totals of one lane.
type figures struct {
	Tasks      int      `json:"tasks"`
	Seconds    float64  `json:"seconds"`           // until the last task was handled or enqueued
	RedisCPU   float64  `json:"redis_cpu_seconds"` // main thread, until the last task was settled
	OwnCPU     float64  `json:"own_cpu_seconds"`   // process of the library
	Mallocs    float64  `json:"mallocs"`
	Commands   float64  `json:"redis_commands"` // including those inside scripts
	RoundTrips float64  `json:"round_trips"`
	Latency    *latency `json:"latency,omitempty"`
	Trend      *trend   `json:"trend,omitempty"`
	Idle       *held    `json:"idle,omitempty"`
	Init       *inits   `json:"init,omitempty"`
	Memory     float64  `json:"memory_bytes,omitempty"` // of Redis
}

// latency is the waiting time of tasks in milliseconds.
type latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// newLatency summarizes latencies.
func newLatency(seen []time.Duration) *latency {
	ms := make([]float64, len(seen))
	for i, d := range seen {
		ms[i] = float64(d) / float64(time.Millisecond)
	}
	return &latency{P50: quantile(ms, 0.5), P99: quantile(ms, 0.99), Max: quantile(ms, 1)}
}

// perTask divides a total by the number of tasks.
func (f *figures) perTask(total float64) float64 { return total / float64(max(f.Tasks, 1)) }

// meter measures the costs of a lane.
type meter struct {
	conn    redis.UniversalClient // round trips are not counted
	trips   *roundTrips
	profile string // file for a CPU profile; none if empty
	begun   reading
	clock   time.Time
	passed  time.Duration
}

// reading is a reading of the meter.
type reading struct {
	redisCPU, commands float64
	trips              int64
	cpu                time.Duration
	mallocs            uint64
}

// start takes the first reading and starts the clock, after a garbage collection.
func (m *meter) start(ctx context.Context) (err error) {
	runtime.GC()
	if m.begun, err = m.read(ctx); err != nil {
		return err
	}
	if m.profile != "" {
		file, err := os.Create(m.profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
	}
	m.clock = time.Now()
	return nil
}

// stop stops the clock, and the profile.
func (m *meter) stop() {
	m.passed = time.Since(m.clock)
	pprof.StopCPUProfile() // writes the file; no-op without a profile
}

// end returns the figures of n tasks since start.
func (m *meter) end(ctx context.Context, n int) (*figures, error) {
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
	err = eachNode(ctx, m.conn, func(node *redis.Client) error {
		info, err := node.Info(ctx, "cpu").Result()
		if err != nil {
			return err
		}
		r.redisCPU += redisCPU(info)
		info, err = node.Info(ctx, "commandstats").Result()
		r.commands += commandCalls(info)
		return err
	})
	return r, err
}

// redisCPU returns the CPU time in INFO cpu in seconds, of the main thread if reported.
func redisCPU(info string) float64 {
	total := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		text := infoField(info, name+"_main_thread")
		if text == "" {
			text = infoField(info, name)
		}
		seconds, _ := strconv.ParseFloat(text, 64) // 0 if not reported
		total += seconds
	}
	return total
}

// commandCalls returns the number of commands in INFO commandstats, except INFO.
func commandCalls(info string) float64 {
	total := 0.0
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || name == "cmdstat_info" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		calls, _ := strconv.ParseFloat(number, 64) // always digits
		total += calls
	}
	return total
}
