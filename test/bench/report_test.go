package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a report with one workload and one dimension.
func sample() *report {
	at100 := name("process", "concurrency", 100)
	some := func(seconds ...float64) (rounds []*figures) {
		for _, s := range seconds {
			rounds = append(rounds, &figures{Tasks: 1000, Seconds: s, RedisCPU: 0.01, OwnCPU: 0.005, Mallocs: 12_000, Commands: 4000, RoundTrips: 20})
		}
		return rounds
	}
	r := &report{Command: "make bench", dimensions: dimensions(true)[:1], Results: []*result{
		{Workload: at100, Side: sideOurs, Rounds: some(0.01, 0.02, 0.04)},
		{Workload: at100, Side: sideReference, Rounds: some(0.1, 0.3, 0.2)},
		{Workload: at100, Side: sideFloor, Error: "gone"},
		{Workload: clusterQueues, Side: sideOurs, Rounds: []*figures{
			{Tasks: 30, Seconds: 3, Latency: &latency{P50: 1, P99: 2, Max: 3}, Idle: &held{Connections: 3, Goroutines: 40}},
		}},
		{Workload: memoryPending, Side: sideOurs, Rounds: []*figures{{Tasks: 1000, Seconds: 1, Memory: 625_000}}},
		{Workload: memoryPending, Side: sideReference, Rounds: []*figures{{Tasks: 1000, Seconds: 1, Memory: 650_000}}},
		{Workload: startImport, Side: sideOurs, Rounds: []*figures{
			{Tasks: 40, Seconds: 1, OwnCPU: 0.08, Latency: &latency{P50: 4, P99: 5, Max: 6}, Init: &inits{Millis: 0.2, Bytes: 30_000}},
		}},
		{Workload: startImport, Side: sideFloor, Rounds: []*figures{
			{Tasks: 40, Seconds: 1, OwnCPU: 0.04, Latency: &latency{P50: 1, P99: 2, Max: 3}},
		}},
	}}
	for _, v := range r.dimensions[0].values {
		r.Results = append(r.Results,
			&result{Workload: growthName(r.dimensions[0].name, v), Side: sideOurs, Rounds: some(0.01)},
			&result{Workload: growthName(r.dimensions[0].name, v), Side: sideReference, Rounds: some(0.1)})
	}
	r.Checks = check(r)
	return r
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := sample()
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"process/concurrency=100 asynq-go 50,000 25,000–100,000 10.0 × 10.0 5.00 12.0 4.00 0.0200",
		"hibiken 5,000 3,333–10,000 1.00 ×",
		"floor failed",
		"pending tasks 1,000 100,000 100,000–100,000 10,000 10.0 10.0",
		"cluster/queues=1000 asynq-go 3.00 40.0 1.00 / 2.00 / 3.00",
		"memory/pending=100000 asynq-go 625 hibiken 650",
		"start/program=import asynq-go 0.20 30.0 2.00 4.00 / 5.00 / 6.00 floor 1.00 1.00 / 2.00 / 3.00",
		"processed/s, concurrency 100 ≥ 11.0 × 10.0 × 5.00–15.0 not met",
		"1,000 queues on a Cluster: connections of a server per primary ≤ 4.00 3.00 3.00–3.00 met",
		"memory of a pending task ≤ 1.00 × 0.96 × 0.96–0.96 met",
		"initialization of the imported packages ≤ 0.30 ms 0.20 ms 0.20–0.20 met",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(text, "concurrency 1,000") {
		t.Error("a target is checked that was not measured")
	}
	if err := r.failed(); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("the failed lane: %v", err)
	}
}

// A target with an alternative is met if one of the two is.
func TestTargetWithAlternative(t *testing.T) {
	t.Parallel()
	at1 := name("process", "concurrency", 1)
	for _, c := range []struct {
		ours, floor float64 // tasks/s; the reference has 1000
		met         bool
	}{{2000, 4000, true}, {1500, 1600, true}, {1500, 1700, false}, {1999, 4000, false}} {
		r := new(report)
		for side, rate := range map[string]float64{sideOurs: c.ours, sideReference: 1000, sideFloor: c.floor} {
			r.Results = append(r.Results, &result{Workload: at1, Side: side, Rounds: []*figures{{Tasks: int(rate), Seconds: 1}}})
		}
		seen := 0
		for _, g := range check(r) {
			if g.Seen == nil {
				continue
			}
			seen++
			if g.Met != c.met {
				t.Errorf("%+v: %+v", c, g)
			}
		}
		if seen != 2 {
			t.Errorf("%d targets, want a target and its alternative", seen)
		}
	}
}

// Each workload of a target exists.
func TestTargetsMeasureWorkloads(t *testing.T) {
	t.Parallel()
	r := new(report)
	list := workloads(false)
	for _, d := range dimensions(false) {
		list = append(list, d.workloads()...)
	}
	for _, w := range list {
		for _, side := range w.lanes() {
			r.Results = append(r.Results, &result{Workload: w.name, Side: side, Rounds: []*figures{{
				Tasks: 1, Seconds: 11, RedisCPU: 1, OwnCPU: 1, Mallocs: 1, Commands: 1, Memory: 1,
				Latency: &latency{P50: 1, P99: 1, Max: 1}, Idle: &held{Connections: 1, Goroutines: 1}, Init: &inits{Millis: 1},
			}}})
		}
	}
	for _, g := range check(r) {
		if g.Seen == nil {
			t.Errorf("%q is not measured", g.What)
		}
	}
	for _, c := range chartedRatios {
		if find(c.workload) == nil {
			t.Errorf("the chart has an unknown workload %q", c.workload)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := &options{
		json: filepath.Join(dir, "b.json"), markdown: filepath.Join(dir, "b.md"), svg: filepath.Join(dir, "growth.svg"),
		ratios: filepath.Join(dir, "ratios.svg"),
	}
	document := "# Title\n" + markerBegin + "\nold\n" + markerEnd + "\nrest\n"
	if err := os.WriteFile(o.markdown, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	r := sample()
	for range 2 { // the second run replaces the first
		if err := r.write(o); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(o.markdown)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "# Title\n") || !strings.HasSuffix(got, markerEnd+"\nrest\n") || strings.Contains(got, "old") ||
		strings.Count(got, "### Costs") != 1 || !strings.Contains(got, "(growth.svg)") || !strings.Contains(got, "(ratios.svg)") {
		t.Errorf("got\n%s", got)
	}
	for file, label := range map[string]string{o.svg: "The cost of a task as things grow", o.ratios: "relative to hibiken"} {
		if svg, err := os.ReadFile(file); err != nil || !strings.Contains(string(svg), label) {
			t.Errorf("%s: %v\n%s", file, err, svg)
		}
	}
	if _, err := between("no markers", ""); err == nil {
		t.Error("text was put nowhere")
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	svg := sample().chart()
	validSVG(t, svg)
	if n := strings.Count(svg, "<polyline"); n != 4 {
		t.Errorf("%d lines, want one for each library in each of two panels", n)
	}
	x := newScale([]float64{10, 5000}, 100, 400)
	if x.from != 1 || x.to != 4 || x.of(100) != 200 || x.of(10_000) != 400 {
		t.Errorf("scale %+v", x)
	}
}

// The chart of ratios has a bar for each measured workload, from 1 to the ratio of the medians.
func TestRatios(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Results[2] = &result{Workload: r.Results[0].Workload, Side: sideFloor, Rounds: []*figures{{Tasks: 1000, Seconds: 0.0125}}}
	svg := r.ratios()
	validSVG(t, svg)
	if n := strings.Count(svg, `class="bar"`); n != 2 {
		t.Errorf("%d bars, want one and the legend", n)
	}
	at := scale{from: 0, to: math.Log10(16), at: ratioLabels, end: ratioLabels + ratioBars}
	for what, want := range map[string]string{
		"bar":   fmt.Sprintf(`x="%d.0" y="37.0" width="%.1f"`, ratioLabels, at.of(10)-ratioLabels),
		"range": fmt.Sprintf(`M%.1f 42.0H%.1f`, at.of(5), at.of(15)),
		"floor": fmt.Sprintf(`M%.1f 35.0v14`, at.of(16)),
		"value": ">10.0 ×<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s: %s is missing in\n%s", what, want, svg)
		}
	}
	validSVG(t, new(report).ratios())
}

// validSVG checks that a chart is valid XML with numbers.
func validSVG(t *testing.T, svg string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("not a number in\n%s", svg)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	info := "# CPU\r\nused_cpu_sys:1.0\r\nused_cpu_user:2.5\r\nused_cpu_user_main_thread:2.0\r\n"
	if got := redisCPU(info); got != 3 {
		t.Errorf("CPU %v, want the main thread's where it is known: 3", got)
	}
	stats := "# Commandstats\r\ncmdstat_get:calls=3,usec=1\r\ncmdstat_info:calls=9,usec=1\r\ncmdstat_config|set:calls=2,usec=1\r\n"
	if got := commandCalls(stats); got != 5 {
		t.Errorf("%v commands, want 5", got)
	}
	if got := infoField("a:1\r\nb:x y\r\n", "b"); got != "x y" {
		t.Errorf("got %q", got)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"make bench": nil,
		"go run ./test/bench -quick -run '^a b(c)$'": {"-quick", "-run", "^a b(c)$"},
	} {
		if got := commandLine(args); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
