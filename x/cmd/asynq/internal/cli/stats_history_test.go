package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
)

// fixedHistory is a history of an hour with two busy periods and a gap.
func fixedHistory() *history {
	h := &history{of: "Queue mail\x1b", step: 10 * time.Minute}
	for n := range 6 {
		p := trends.Point{Start: time.Date(2026, 5, 4, 12, 10*n, 0, 0, time.UTC), Known: n != 2}
		if n%2 == 1 {
			p.Succeeded, p.Retried = int64(n*100), int64(n)
			for range n {
				p.Duration.Observe(time.Duration(n) * time.Second)
				p.Wait.Observe(time.Duration(n) * time.Millisecond)
			}
		}
		if p.Known {
			p.Sizes = &asynq.QueueSizes{Pending: 1200 * n, Active: n, Latency: time.Duration(n) * time.Minute}
		}
		h.points = append(h.points, p)
	}
	return h
}

func TestStatsHistoryChart(t *testing.T) {
	w := &world{t: t, namespace: "none"}
	text := func(h *history, kind string) (b strings.Builder) {
		t.Helper()
		o := out.Options{Kind: out.Kind(kind)}
		if err := h.write(&b, o); err != nil {
			t.Fatal(err)
		}
		return b
	}
	queue := text(fixedHistory(), "wide")
	w.golden("stats_history_wide", result{out: queue.String()})
	for _, want := range []string{"Duration p95 ▁ ▅ █ 5.19s", "Wait p95 ▂ ▅ █ 5.07ms", "Latency ▁▂ ▅▆█ 5m0s", "2026-05-04 12:50:00Z 505 5 5.19s"} {
		if !containsFields(queue.String(), want) {
			t.Errorf("%s\nno line begins with %q", queue.String(), want)
		}
	}
	h := fixedHistory()
	h.ofType = true
	ofType := text(h, "table")
	w.golden("stats_history_type", result{out: ofType.String()})
}

func TestStatsTypesColumns(t *testing.T) {
	w := &world{t: t, namespace: "none"}
	busy := &trends.Type{Name: "report:build", Queues: []string{"a", "b"}, AttemptStats: asynq.AttemptStats{Succeeded: 12000, Retried: 340, Crashed: 1}}
	for n := range 100 {
		busy.Duration.Observe(time.Duration(n) * 100 * time.Millisecond)
		busy.Wait.Observe(time.Duration(n) * time.Microsecond)
	}
	var b strings.Builder
	rows := []*typeStatsRow{newTypeStatsRow(busy), newTypeStatsRow(&trends.Type{Queues: []string{"a"}})}
	if err := out.List(&b, out.Options{Kind: out.Wide}, typeStatsColumns, all(rows)); err != nil {
		t.Fatal(err)
	}
	if want := "report:build a, b 12341 341 2.76% 1 8m15s 5.19s 8.72s 10.37s 47µs 94µs 94µs"; !containsFields(b.String(), want) {
		t.Errorf("%s\nno line begins with %q", b.String(), want)
	}
	if err := out.List(&b, out.Options{Kind: out.JSON}, typeStatsColumns, all(rows)); err != nil {
		t.Fatal(err)
	}
	w.golden("stats_types_columns", result{out: b.String()})
}

func TestSinceText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 720 * time.Hour: "720h", 90 * time.Second: "1m30s", 10 * time.Hour: "10h", 10 * time.Minute: "10m",
	} {
		if got := sinceText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The numbers are those that servers have recorded, whether the tasks exist or not.
func TestStatsOverTime(t *testing.T) {
	w := newWorld(t)
	expect := func(want result, args ...string) {
		t.Helper()
		if r := w.run(args...); r.out != want.out || !strings.Contains(r.err, want.err) || r.code != want.code || want.err == "" && r.err != "" {
			t.Errorf("%q: %+v, want %+v", args, r, want)
		}
	}
	expect(result{out: "[]\n"}, "stats", "types", "-o", "json")
	w.processTasks("mail", 4, 2)
	w.processTasks("other", 1, 0)
	const row = "-o=template={{.type}} {{len .queues}} {{.attempts}} {{.failed}} {{.succeeded}} {{.archived}}"
	expect(result{out: "ok 2 5 0 5 0\nfail 1 2 2 0 2\n"}, "stats", "types", row)
	expect(result{out: "ok 1 4 0 4 0\nfail 1 2 2 0 2\n"}, "stats", "types", "-q", "mail", "--since", "720h", row)
	expect(result{out: "fail 1 2 2 0 2\nok 2 5 0 5 0\n"}, "stats", "types", "--sort", "-error_rate", "-q", "mail,other", row)
	expect(result{out: "fail 1 2 2 0 2\n"}, "stats", "types", "--filter", "error_rate>0.5", row)
	expect(result{err: "selects none of 2 task types", out: "TYPE  ATTEMPTS  FAILED  FAILED %  TOTAL  P50  P95  P99  WAIT P50  WAIT P95  WAIT P99\n"}, "stats", "types", "--filter", "attempts>9")
	expect(result{out: "ok 1 1 0 1 0\n", err: `"none"`, code: ExitNotFound}, "stats", "types", "-q", "none,other", row)
	expect(result{err: "between 1m and 720h", code: ExitUsage}, "stats", "types", "--since", "721h")
	expect(result{err: "takes no arguments", code: ExitUsage}, "stats", "types", "x")
	expect(result{err: "unknown command", code: ExitUsage}, "stats", "x")

	sums := func(args ...string) string {
		t.Helper()
		r := w.run(append([]string{"stats", "history", "-o=template={{if .attempts}}{{.attempts}} {{.failed}}{{end}}"}, args...)...)
		if r.code != ExitDone {
			t.Fatalf("%q: %+v", args, r)
		}
		var sum [2]int
		for line := range strings.Lines(r.out) {
			var n [2]int
			if _, err := fmt.Sscan(line, &n[0], &n[1]); err == nil {
				sum[0], sum[1] = sum[0]+n[0], sum[1]+n[1]
			}
		}
		return fmt.Sprintf("%v of %d", sum, strings.Count(r.out, "\n"))
	}
	for args, want := range map[string]string{
		"": "[7 2] of 36", "--since 720h": "[7 2] of 60", "--since 48h --step 1m": "[7 2] of 2880", "--since 49h --step 1h": "[7 2] of 49",
		"-q mail": "[6 2] of 36", "-q other,mail": "[7 2] of 36", "-t fail": "[2 2] of 36", "-q other -t ok": "[1 0] of 36", "-t none": "[0 0] of 36",
	} {
		if got := sums(strings.Fields(args)...); got != want {
			t.Errorf("history %s: %s, want %s", args, got, want)
		}
	}
	if r := w.run("stats", "history", "-q", "mail"); r.code != ExitDone || !strings.Contains(r.out, "█") || !strings.HasPrefix(r.out, "Queue mail from ") ||
		!strings.Contains(r.out, "Latency") || strings.Count(r.out, "\n") != 12 {
		t.Errorf("%+v", r)
	}
	if r := w.run("stats", "history", "-t", "ok"); !strings.HasPrefix(r.out, "Type ok in all queues from ") || strings.Contains(r.out, "Latency") {
		t.Errorf("%+v", r)
	}
	expect(result{err: "nothing recorded in the last 6h"}, "stats", "history", "-t", "none")
	expect(result{err: `"none"`, code: ExitNotFound}, "stats", "history", "-q", "none")
	expect(result{err: "multiple of 1m", code: ExitUsage}, "stats", "history", "--step", "90s")
	expect(result{err: "multiple of 1h", code: ExitUsage}, "stats", "history", "--since", "49h", "--step", "1m")
	expect(result{err: "between 1m and 720h", code: ExitUsage}, "stats", "history", "--since", "0")
}

// The history remains after a restart of the servers.
func TestStatsHistoryAfterRestart(t *testing.T) {
	w := newWorld(t)
	for n := range 2 {
		w.processTasks("mail", 1, 0)
		want := fmt.Sprintf("ok %d\n", n+1)
		if r := w.run("stats", "types", "-o=template={{.type}} {{.attempts}}"); r.out != want {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	w.serve("mail", func(context.Context, *asynq.Task) error { return errors.New("no") })
	w.enqueue("bad", "", asynq.Queue("mail"))
	proctest.Eventually(t, "a running server to write its statistics", func() bool {
		return strings.Contains(w.run("stats", "types", "-o=template={{.type}} {{.failed}}").out, "bad 1\n")
	})
}
