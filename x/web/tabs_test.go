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

// tabs opens n tabs of a separate web UI. Each receives the given number of snapshots and requests
// its page and a chart at each, like the scripts of the pages. It returns the number of commands
// that Redis received and the number of polls.
func tabs(t *testing.T, n, snapshots int) (commands, polls int) {
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
	browser := &http.Client{Transport: transport, Timeout: 5 * time.Minute} // of a whole stream
	defer server.Close()
	defer h.Close() // ends the streams, which the server would wait for
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
	commands, polls = mini.CommandCount()-before, int(latest.Load())
	if most := int(time.Since(began)/interval) + 2; polls > most {
		t.Errorf("%d tabs: Redis was polled %d times, want %d at most", n, polls, most)
	}
	return commands, polls
}

// One poller polls Redis for any number of tabs. The test is not parallel to others, because what
// pages read themselves, such as charts, is read again after some seconds: the slower the machine,
// the more often.
func TestManyTabsCostOnePoller(t *testing.T) {
	one, onePolls := tabs(t, 1, 4)
	began := time.Now()
	many, manyPolls := tabs(t, 200, 4)
	took := time.Since(began)
	t.Logf("1 tab: %d commands for %d polls; 200 tabs: %d for %d in %v", one, onePolls, many, manyPolls, took)
	if most := 2*one*(manyPolls+2)/onePolls + one*int(took/(5*time.Second)); many > most {
		t.Errorf("with 200 tabs Redis got %d commands for %d polls, and with one %d for %d: want %d at most", many, manyPolls, one, onePolls, most)
	}
}
