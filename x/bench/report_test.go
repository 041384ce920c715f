package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a report of one workload and one dimension.
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
		"pending tasks 1,000 100,000 10,000 10.0 10.0",
		"processed/s, concurrency 100 ≥ 10.0 × 10.0 × met",
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

func TestTargetNotMet(t *testing.T) {
	t.Parallel()
	r := sample()
	for _, f := range r.Results[0].Rounds {
		f.Seconds *= 2
	}
	for _, c := range check(r) {
		if c.What == "processed/s, concurrency 100" && (c.Seen == nil || c.Met) {
			t.Errorf("5 times as fast: %+v", c)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := &options{
		json: filepath.Join(dir, "b.json"), markdown: filepath.Join(dir, "b.md"), svg: filepath.Join(dir, "growth.svg"),
	}
	document := "# Title\n" + markerBegin + "\nold\n" + markerEnd + "\nrest\n"
	if err := os.WriteFile(o.markdown, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	r := sample()
	for range 2 { // the second time replaces the first
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
		strings.Count(got, "### Costs") != 1 || !strings.Contains(got, "(growth.svg)") {
		t.Errorf("got\n%s", got)
	}
	if _, err := between("no markers", ""); err == nil {
		t.Error("text was put nowhere")
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	svg := sample().chart()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if n := strings.Count(svg, "<polyline"); n != 4 {
		t.Errorf("%d lines, want one for each library in each of two panels", n)
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("not a number in\n%s", svg)
	}
	x := newScale([]float64{10, 5000}, 100, 400)
	if x.from != 1 || x.to != 4 || x.of(100) != 200 || x.of(10_000) != 400 {
		t.Errorf("scale %+v", x)
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
		"go run ./x/bench -quick -run '^a b(c)$'": {"-quick", "-run", "^a b(c)$"},
	} {
		if got := commandLine(args); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
