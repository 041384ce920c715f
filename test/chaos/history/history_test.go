package history_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

func TestEventsComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	late, early := create(t, dir, "late", 0), create(t, dir, "early", 0)
	want := []history.Event{
		{At: 1, Kind: history.Offered, Process: "early", Task: "a", Plan: []string{history.Fail, history.Succeed}, UniqueTTL: time.Second},
		{At: 2, Kind: history.Started, Process: "late", Task: "a\n\xff", Run: "r", Members: []string{"x"}},
		{At: 3, Kind: history.Died, Process: "other"},
	}
	late.Write(want[1])
	early.Write(history.Event{At: 1, Kind: history.Offered, Task: "a", Plan: []string{history.Fail, history.Succeed}, UniqueTTL: time.Second})
	early.Write(want[2])
	for _, w := range []*history.Writer{late, early} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want[1].Task = "a\n\ufffd" // JSON supports only valid UTF-8
	got, err := history.Read(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v\nwant %+v", got, err, want)
	}
	if n, err := history.Count(dir, "early", history.Died); n != 1 || err != nil {
		t.Errorf("counted %d, error %v", n, err)
	}
}

func TestTornLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "p.jsonl")
	whole := `{"at":1,"kind":"died"}` + "\n"
	write(t, name, whole+whole[:10])
	if events, err := history.Read(dir); len(events) != 1 || err != nil {
		t.Errorf("incomplete last line: %v, error %v", events, err)
	}
	write(t, name, whole[:10]+"\n"+whole)
	if _, err := history.Read(dir); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("incomplete line before others: error %v", err)
	}
}

func TestWriterOfSkewedProcess(t *testing.T) {
	t.Parallel()
	w := create(t, t.TempDir(), "p", time.Hour)
	if ahead := time.Until(time.Unix(0, w.Now())); ahead > -59*time.Minute {
		t.Errorf("an event of now is at %v", ahead)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.Write(history.Event{})
	if err := w.Close(); err == nil {
		t.Error("a failed write is not reported")
	}
}

func TestWritersTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := create(t, dir, "p", 0)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 100 {
				w.Write(history.Event{Kind: history.Started, Err: strings.Repeat("x", 1000)})
			}
		})
	}
	all.Wait()
	if events, err := history.Read(dir); len(events) != 1000 || err != nil {
		t.Errorf("%d events, error %v", len(events), err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func create(t *testing.T, dir, process string, skew time.Duration) *history.Writer {
	t.Helper()
	w, err := history.Create(dir, process, skew)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
