package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// tabs has so many tabs look at a web UI of its own, each of which sees so many snapshots, and asks for its page and a chart at each as the
// scripts of the pages do. It returns the commands that Redis got for that, and how often it was looked at.
func tabs(t *testing.T, n, snapshots int) (commands, looks int) {
	t.Helper()
	const interval = 200 * time.Millisecond
	mini := miniredis.RunT(t)
	redis := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	if _, err := client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{RedisConnOpt: redis, PollInterval: interval, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	server := httptest.NewServer(h)
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	browser := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	defer server.Close()
	defer h.Close() // it ends the streams, which the server would wait for
	defer transport.CloseIdleConnections()

	fetch := func(path string) error {
		response, err := browser.Get(server.URL + path)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	tab := func(pages []string, latest *atomic.Int64) error {
		stream, err := browser.Get(server.URL + "/events")
		if err != nil {
			return err
		}
		defer stream.Body.Close()
		lines := bufio.NewScanner(stream.Body)
		for seen := 0; seen < snapshots && lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var event struct{ Seq int64 }
			if err := json.Unmarshal([]byte(data), &event); err != nil || event.Seq == 0 {
				return fmt.Errorf("the event %q: %w", data, err)
			}
			for was := latest.Load(); event.Seq > was && !latest.CompareAndSwap(was, event.Seq); was = latest.Load() {
			}
			if seen++; seen == snapshots {
				return nil
			}
			for _, path := range pages {
				if err := fetch(path); err != nil {
					return err
				}
			}
		}
		return fmt.Errorf("the stream ends: %w", lines.Err())
	}
	var all sync.WaitGroup
	var latest atomic.Int64
	before, began := mini.CommandCount(), time.Now()
	for i := range n {
		page := []string{"/", "/queues", "/servers", "/redis"}[i%4]
		all.Go(func() {
			if err := tab([]string{page, "/series?metrics=pending,retry&span=10m", "/series?queue=default&metrics=latency&span=10m"}, &latest); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	commands, looks = mini.CommandCount()-before, int(latest.Load())
	if most := int(time.Since(began)/interval) + 2; looks > most {
		t.Errorf("%d tabs: Redis was looked at %d times, want %d at most", n, looks, most)
	}
	return commands, looks
}

// However many look, one poller looks at Redis for them.
func TestManyTabsCostOnePoller(t *testing.T) {
	t.Parallel()
	one, oneLooks := tabs(t, 1, 4)
	many, manyLooks := tabs(t, 200, 4)
	t.Logf("1 tab: %d commands for %d looks; 200 tabs: %d for %d", one, oneLooks, many, manyLooks)
	if most := 2 * one * (manyLooks + 2) / oneLooks; many > most {
		t.Errorf("with 200 tabs Redis got %d commands for %d looks, and with one %d for %d: want %d at most", many, manyLooks, one, oneLooks, most)
	}
}
