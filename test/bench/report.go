package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
)

// report is the result of a run.
type report struct {
	Command string    `json:"command"`
	Quick   bool      `json:"quick,omitempty"`
	Machine machine   `json:"machine"`
	Results []*result `json:"results"`
	Checks  []*target `json:"checks"`

	dimensions []*dimension
}

// of returns the result of a workload on one side; nil if there is none.
func (r *report) of(workload, side string) *result {
	for _, res := range r.Results {
		if res.Workload == workload && res.Side == side && len(res.Rounds) > 0 {
			return res
		}
	}
	return nil
}

// median returns the median of a figure over the rounds; NaN without rounds.
func (r *report) median(workload, side string, figure func(*figures) float64) float64 {
	res := r.of(workload, side)
	if res == nil {
		return math.NaN()
	}
	return median(res.each(figure))
}

// failed returns the errors of failed lanes.
func (r *report) failed() error {
	var errs []error
	for _, res := range r.Results {
		if res.Error != "" {
			errs = append(errs, fmt.Errorf("%s, %s: failed: %s", res.Workload, res.Side, res.Error))
		}
	}
	return errors.Join(errs...)
}

// Prefixes of the workloads that have tables of their own.
const (
	prefixGrowth  = "growth/"
	prefixCluster = "cluster/"
	prefixMemory  = "memory/"
	prefixStart   = "start/"
)

// costs returns the table of all workloads without a table of their own.
func (r *report) costs() *table {
	own := regexp.MustCompile("^(" + strings.Join([]string{prefixGrowth, prefixCluster, prefixMemory, prefixStart}, "|") + ")")
	return r.rows([]string{
		"workload", "", "tasks/s", "min–max", "of hibiken", "Redis CPU µs", "own CPU µs", "allocations", "Redis commands", "round trips",
		"p50 / p99 / max ms",
	}, func(workload string) bool { return !own.MatchString(workload) }, r.cells)
}

// rows returns a table with a row for each side of the workloads of a section.
func (r *report) rows(header []string, of func(workload string) bool, cells func(*result) []string) *table {
	t := &table{texts: 2, header: header}
	last := ""
	for _, res := range r.Results {
		if !of(res.Workload) {
			continue
		}
		title := res.Workload
		if title == last {
			title = ""
		}
		last = res.Workload
		row := append(make([]string, 0, len(header)), title, res.Side)
		if len(res.Rounds) > 0 {
			row = append(row, cells(res)...)
		} else {
			row = append(row, "failed")
			row = row[:len(header)]
		}
		t.add(row...)
	}
	return t
}

// footprint returns the table of the workloads with a prefix. Each column has the median of a
// figure; empty cells mean that a side does not have it.
func (r *report) footprint(prefix string, columns ...column) *table {
	header := []string{"workload", ""}
	for _, c := range columns {
		header = append(header, c.title)
	}
	return r.rows(header, func(workload string) bool { return strings.HasPrefix(workload, prefix) }, func(res *result) (cells []string) {
		for _, c := range columns {
			cells = append(cells, count(median(res.each(c.figure))))
		}
		if res.Rounds[0].Latency != nil {
			cells[len(cells)-1] = res.latencies()
		}
		return cells
	})
}

// column is a column of a footprint.
type column struct {
	title  string
	figure func(*figures) float64
}

// latencyColumn is the last column of footprints with latencies.
var latencyColumn = column{"p50 / p99 / max ms", func(*figures) float64 { return math.NaN() }}

// cells returns the figures of a row of costs.
func (r *report) cells(res *result) []string {
	if res.Rounds[0].Tasks == 0 { // an idle server: per second instead of per task
		second := func(total func(*figures) float64) string {
			return count(median(res.each(func(f *figures) float64 { return total(f) / f.Seconds }))) + "/s"
		}
		return []string{
			"", "", "",
			second(func(f *figures) float64 { return f.RedisCPU * 1e6 }),
			second(func(f *figures) float64 { return f.OwnCPU * 1e6 }),
			second(func(f *figures) float64 { return f.Mallocs }),
			second(func(f *figures) float64 { return f.Commands }),
			second(func(f *figures) float64 { return f.RoundTrips }), "",
		}
	}
	rates := res.each((*figures).rate)
	cells := []string{
		count(median(rates)),
		spreadOf(rates),
		times(median(rates) / r.median(res.Workload, sideReference, (*figures).rate)),
	}
	for i, figure := range []func(*figures) float64{redisMicros, ownMicros, mallocs, commands, trips} {
		value := median(res.each(figure))
		if res.Side == sideBullMQ && (i == 2 || i == 4) {
			value = math.NaN() // not measured
		}
		cells = append(cells, count(value))
	}
	if res.Rounds[0].Latency == nil {
		return append(cells, "")
	}
	// The rate is given, not measured.
	cells[0], cells[1], cells[2] = "", "", ""
	return append(cells, res.latencies())
}

// latencies returns the medians of p50 and p99, and the maximum.
func (res *result) latencies() string {
	return count(median(res.each(p50))) + " / " + count(median(res.each(p99))) + " / " +
		count(quantile(res.each(func(f *figures) float64 { return f.Latency.Max }), 1))
}

// spreadOf returns the minimum and the maximum of a figure.
func spreadOf(values []float64) string {
	return count(quantile(values, 0)) + "–" + count(quantile(values, 1))
}

// growth returns the table of costs as things grow.
func (r *report) growth() *table {
	t := &table{texts: 1, header: []string{
		"", "", "asynq-go tasks/s", "min–max", "hibiken tasks/s", "asynq-go Redis CPU µs", "hibiken Redis CPU µs",
	}}
	for _, d := range r.dimensions {
		title := d.name
		for _, v := range d.values {
			cells := []string{title, count(float64(v))}
			for _, figure := range []func(*figures) float64{(*figures).rate, redisMicros} {
				for _, side := range []string{sideOurs, sideReference} {
					cells = append(cells, count(r.median(growthName(d.name, v), side, figure)))
				}
			}
			if strings.Join(cells[2:], "") == "" {
				continue
			}
			spread := ""
			if res := r.of(growthName(d.name, v), sideOurs); res != nil {
				spread = spreadOf(res.each((*figures).rate))
			}
			t.add(slices.Insert(cells, 3, spread)...)
			title = ""
		}
	}
	return t
}

// soaks returns the table of trends during soaks.
func (r *report) soaks() *table {
	t := &table{texts: 1, header: []string{"soak", "minutes", "tasks", "heap kB", "kB/min", "goroutines", "goroutines/min"}}
	for _, res := range r.Results {
		for _, f := range res.Rounds {
			if s := f.Trend; s != nil {
				t.add(res.Side, count(s.Minutes), count(float64(f.Tasks)), count(s.Heap/1024), count(s.HeapGrowth/1024),
					count(s.Goroutines), count(s.GoroutinesGrowth))
			}
		}
	}
	return t
}

// section is a table with its title.
type section struct {
	title string
	*table
}

// sections returns the tables that have rows.
func (r *report) sections() (list []section) {
	for _, s := range []section{
		{"Costs", r.costs()}, {"Growth", r.growth()},
		{"Cluster", r.footprint(prefixCluster, column{"connections per primary", connections},
			column{"goroutines beyond the slots", goroutines}, latencyColumn)},
		{"Memory", r.footprint(prefixMemory, column{"bytes per task", memory})},
		{"Programs", r.footprint(prefixStart, column{"initialization ms", initMillis}, column{"initialization kB", initKilobytes},
			column{"CPU ms", func(f *figures) float64 { return ownMicros(f) / 1000 }}, latencyColumn)},
		{"Soak", r.soaks()}, {"Design targets", checkTable(r.Checks)},
	} {
		if len(s.rows) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// print writes the tables as text.
func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s\n%s\n", r.Command, r.Machine)
	for _, s := range r.sections() {
		fmt.Fprintf(out, "\n%s\n\n", s.title)
		if err := s.text(out); err != nil {
			return err
		}
	}
	return nil
}

// Markers of the tables in the Markdown file.
const (
	markerBegin = "<!-- bench: begin -->"
	markerEnd   = "<!-- bench: end -->"
)

// markdown returns the tables as Markdown, with the charts that o names.
func (r *report) markdown(o *options) (string, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "    %s\n\n%s\n", r.Command, r.Machine)
	for _, s := range r.sections() {
		fmt.Fprintf(&out, "\n### %s\n\n", s.title)
		if s.title == "Costs" && o.ratios != "" {
			fmt.Fprint(&out, "![Tasks per second relative to hibiken](ratios.svg)\n\n")
		}
		if s.title == "Growth" && o.svg != "" {
			fmt.Fprint(&out, "![Cost of a task as things grow](growth.svg)\n\n")
		}
		if err := s.table.markdown(&out); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// between replaces the text between the markers of a document.
func between(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, markerBegin)
	_, after, ok2 := strings.Cut(rest, markerEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("the markers %s and %s are missing", markerBegin, markerEnd)
	}
	return before + markerBegin + "\n\n" + text + "\n" + markerEnd + after, nil
}

// write writes the files named by the options.
func (r *report) write(o *options) error {
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	for file, draw := range map[string]func() string{o.svg: r.chart, o.ratios: r.ratios} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(draw()), 0o644); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	document, err := os.ReadFile(o.markdown)
	if errors.Is(err, os.ErrNotExist) {
		document = []byte(markerBegin + "\n" + markerEnd + "\n")
	} else if err != nil {
		return err
	}
	text, err := r.markdown(o)
	if err != nil {
		return err
	}
	whole, err := between(string(document), text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.markdown, err)
	}
	return os.WriteFile(o.markdown, []byte(whole), 0o644)
}
