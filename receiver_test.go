package asynq

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// names returns the present pollers with their queues.
func (p *pollers) names(held map[string][]*wire.WorkerInfo) map[string][]string {
	all := make(map[string][]string)
	p.each(held, func(name string, one *poller, running []*wire.WorkerInfo) {
		all[name] = nil
		for q := range one.queues {
			all[name] = append(all[name], q)
		}
	})
	return all
}

func TestPollersExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPollers()
		end := p.begin("w", 5, []string{"a", "b"})
		p.begin("w", 1, []string{"b"})()
		p.begin("busy", 1, []string{"c"})()
		p.begin("once", 1, []string{"d"})()
		held := func() map[string][]*wire.WorkerInfo {
			return map[string][]*wire.WorkerInfo{"busy": {{TaskID: "t", Queue: "c"}}, "elsewhere": {{TaskID: "u", Queue: "e"}}}
		}
		time.Sleep(pollerTTL + time.Second)
		if got := p.names(held()); len(got["w"]) != 2 || len(got["busy"]) != 1 || len(got) != 3 {
			t.Errorf("pollers %v; want w, which waits, and two with leases", got)
		}
		if one := p.byName["w"]; one.waiting != 5 || one.last != time.Now() {
			t.Errorf("w waits for %d tasks, last poll at %v", one.waiting, one.last)
		}
		end()
		time.Sleep(pollerTTL)
		if got := p.names(held()); len(got["w"]) != 2 {
			t.Errorf("pollers %v; want w until %v after its last poll", got, pollerTTL)
		}
		time.Sleep(time.Second)
		if got := p.names(nil); len(got) != 0 || p.pairs != 0 {
			t.Errorf("pollers %v, %d pairs; want none", got, p.pairs)
		}
	})
}

func TestPollersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPollers()
		queues := make([]string, 100)
		for i := range queues {
			queues[i] = "q" + strconv.Itoa(i)
		}
		for i := range 2 * maxPollers {
			p.begin("worker-"+strconv.Itoa(i), 1, queues)()
		}
		if got := p.names(map[string][]*wire.WorkerInfo{"one more": {{TaskID: "t", Queue: "q"}}}); len(got) > maxPollers+1 || p.pairs > maxPolledPairs {
			t.Errorf("%d names and %d pairs, want at most %d and %d", len(got), p.pairs, maxPollers+1, maxPolledPairs)
		}
		time.Sleep(pollerTTL + time.Second)
		if got := p.names(nil); len(got) != 0 || p.pairs != 0 || len(p.byName) != 0 {
			t.Errorf("%d names and %d pairs left", len(got), p.pairs)
		}
	})
}

func TestWorkerNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", " ", "a\nb", "\xff", "\x1b[31m", "a\u202eb", strings.Repeat("x", maxWorkerName+1)} {
		if err := validateWorkerName(name); err == nil {
			t.Errorf("accepted the worker name %q", name)
		}
	}
	for name, want := range map[string]struct {
		host string
		pid  int
	}{
		"web-1:4711": {"web-1", 4711}, "shell": {"shell", 0}, "a:b": {"a:b", 0}, "::1:80": {"::1", 80}, "x:99999999999": {"x:99999999999", 0},
		":5": {":5", 0}, "x:-5": {"x:-5", 0}, "Grüße {1}": {"Grüße {1}", 0},
	} {
		if err := validateWorkerName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if host, pid := splitWorkerName(name); host != want.host || pid != want.pid {
			t.Errorf("%q: host %q, process %d", name, host, pid)
		}
	}
}
