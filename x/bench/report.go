package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// report is what a run found.
type report struct {
	Command string    `json:"command"`
	Quick   bool      `json:"quick,omitempty"`
	Machine machine   `json:"machine"`
	Results []*result `json:"results"`
	Checks  []*target `json:"checks"`

	dimensions []*dimension
}

// of returns the result of a workload on one side, nil if there is none.
func (r *report) of(workload, side string) *result {
	for _, res := range r.Results {
		if res.Workload == workload && res.Side == side && len(res.Rounds) > 0 {
			return res
		}
	}
	return nil
}

// median returns the median of a figure over the rounds, NaN if there are none.
func (r *report) median(workload, side string, figure func(*figures) float64) float64 {
	res := r.of(workload, side)
	if res == nil {
		return math.NaN()
	}
	return median(res.each(figure))
}

// failed says which lanes did not come to their end.
func (r *report) failed() error {
	var errs []error
	for _, res := range r.Results {
		if res.Error != "" {
			errs = append(errs, fmt.Errorf("%s, %s: failed: %s", res.Workload, res.Side, res.Error))
		}
	}
	return errors.Join(errs...)
}

// costs is the table of all workloads but the growth.
func (r *report) costs() *table {
	t := &table{texts: 2, header: []string{
		"workload", "", "tasks/s", "min–max", "of hibiken", "Redis CPU µs", "own CPU µs", "allocations", "Redis commands", "round trips",
		"p50 / p99 / max ms",
	}}
	last := ""
	for _, res := range r.Results {
		if strings.HasPrefix(res.Workload, "growth/") {
			continue
		}
		title := res.Workload
		if title == last {
			title = ""
		}
		last = res.Workload
		if len(res.Rounds) == 0 {
			t.add(title, res.Side, "failed", "", "", "", "", "", "", "", "")
			continue
		}
		t.add(append([]string{title, res.Side}, r.cells(res)...)...)
	}
	return t
}

// cells are the figures of one row of costs.
func (r *report) cells(res *result) []string {
	if res.Rounds[0].Tasks == 0 { // of an idle server: a second takes the place of a task
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
		count(quantile(rates, 0)) + "–" + count(quantile(rates, 1)),
		times(median(rates) / r.median(res.Workload, sideReference, (*figures).rate)),
	}
	for i, figure := range []func(*figures) float64{redisMicros, ownMicros, mallocs, commands, trips} {
		value := median(res.each(figure))
		if res.Side == sideBullMQ && (i == 2 || i == 4) {
			value = math.NaN() // not measured there
		}
		cells = append(cells, count(value))
	}
	if res.Rounds[0].Latency == nil {
		return append(cells, "")
	}
	// What comes at a given rate says nothing by its rate.
	cells[0], cells[1], cells[2] = "", "", ""
	return append(cells, count(median(res.each(p50)))+" / "+count(median(res.each(p99)))+" / "+
		count(quantile(res.each(func(f *figures) float64 { return f.Latency.Max }), 1)))
}

func p50(f *figures) float64 { return f.Latency.P50 }
func p99(f *figures) float64 { return f.Latency.P99 }

// growth is the table of what a task costs as things grow.
func (r *report) growth() *table {
	t := &table{texts: 1, header: []string{
		"", "", "asynq-go tasks/s", "hibiken tasks/s", "asynq-go Redis CPU µs", "hibiken Redis CPU µs",
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
			if strings.Join(cells[2:], "") != "" {
				t.add(cells...)
				title = ""
			}
		}
	}
	return t
}

// soaks is the table of what became of processes in the course of a soak.
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

// sections are the tables that have rows.
func (r *report) sections() (list []section) {
	for _, s := range []section{
		{"Costs", r.costs()}, {"Growth", r.growth()}, {"Soak", r.soaks()}, {"DESIGN 5", checkTable(r.Checks)},
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

// The tables in the Markdown file stand between these.
const (
	markerBegin = "<!-- bench: begin -->"
	markerEnd   = "<!-- bench: end -->"
)

// markdown is the tables as Markdown.
func (r *report) markdown(svg bool) (string, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "    %s\n\n%s\n", r.Command, r.Machine)
	for _, s := range r.sections() {
		fmt.Fprintf(&out, "\n### %s\n\n", s.title)
		if s.title == "Growth" && svg {
			fmt.Fprint(&out, "![Cost of a task as things grow](growth.svg)\n\n")
		}
		if err := s.table.markdown(&out); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// between puts text between the markers of a document.
func between(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, markerBegin)
	_, after, ok2 := strings.Cut(rest, markerEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("the markers %s and %s are missing", markerBegin, markerEnd)
	}
	return before + markerBegin + "\n\n" + text + "\n" + markerEnd + after, nil
}

// write writes the files that the options name.
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
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(r.chart()), 0o644); err != nil {
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
	text, err := r.markdown(o.svg != "")
	if err != nil {
		return err
	}
	whole, err := between(string(document), text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.markdown, err)
	}
	return os.WriteFile(o.markdown, []byte(whole), 0o644)
}
