package poll

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDetailsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		hang := make(chan struct{})
		p := New(Config{Source: f, Logger: quiet()})
		defer p.Close()
		f.hang = hang
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if d, err := p.RedisDetails(t.Context()); err != nil || d.Left != 1 {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		synctest.Wait()
		f.set(func(f *fakeSource) { f.hang = nil })
		close(hang)
		wg.Wait()
		time.Sleep(detailsAge - time.Millisecond)
		if d, err := p.RedisDetails(t.Context()); err != nil || d.Left != 1 {
			t.Errorf("within two seconds: %+v, %v", d, err)
		}
		time.Sleep(time.Millisecond)
		if d, err := p.RedisDetails(t.Context()); err != nil || d.Left != 2 {
			t.Errorf("after two seconds: %+v, %v", d, err)
		}
		time.Sleep(detailsAge)
		f.set(func(f *fakeSource) { f.parts = map[string]error{"details": errDown} })
		if _, err := p.RedisDetails(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("Redis is away: %v", err)
		}
		f.set(func(f *fakeSource) { f.parts = nil })
		if d, err := p.RedisDetails(t.Context()); err != nil || d.Left != 4 {
			t.Errorf("an error was kept: %+v, %v", d, err)
		}
		// A hanging call ends by its own timeout.
		time.Sleep(detailsAge)
		f.set(func(f *fakeSource) { f.hang = make(chan struct{}) })
		began := time.Now()
		if _, err := p.RedisDetails(t.Context()); err == nil || time.Since(began) != detailsTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestClients(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "id=%d addr=10.0.0.%d:%d laddr=10.0.0.1:6379 fd=8 name=%s age=%d idle=0 flags=%s db=0 omem=%d cmd=%s user=default\n",
			n, n%30, 1000+n, strings.Repeat("x", n%2*100), 50*n, map[bool]string{true: "b", false: "N"}[n < 7], n, map[bool]string{true: "blpop", false: "evalsha"}[n < 7])
	}
	text.WriteString("\nid=101 addr=[::1]:5000 name= age=100000 flags=P cmd=NULL\nid=102 addr=/tmp/redis.sock:0\n")
	c := newClients(text.String())
	if c.Total != 102 || c.Blocked != 7 || c.Oldest != 100000*time.Second || c.OutputMax != 99 {
		t.Errorf("%+v", c)
	}
	wantEqual(t, "by name", c.ByName, []ClientGroup{{Name: "", Count: 52}, {Name: strings.Repeat("x", 80) + "…", Count: 50}})
	wantEqual(t, "by command", c.ByCommand, []ClientGroup{{Name: "evalsha", Count: 93}, {Name: "blpop", Count: 7}, {Name: "", Count: 1}, {Name: "NULL", Count: 1}})
	if n := len(c.ByHost); n != maxGroups+1 || !c.ByHost[n-1].Rest || c.ByHost[0].Count != 4 || c.ByHost[n-1].Count != 102-10*4-10*3 {
		t.Errorf("by host: %+v", c.ByHost)
	}
	var ages []int
	for _, g := range c.ByAge {
		ages = append(ages, g.Count)
	}
	wantEqual(t, "by age", ages, []int{3, 70, 28, 1})
	wantEqual(t, "hosts", []string{hostOf("[::1]:5000"), hostOf(""), hostOf("x"), hostOf("/a.sock:0")}, []string{"::1", "", "x", "/a.sock"})
}

// Values of commands may be payloads, and are never shown.
func TestCallText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 100)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"PING"}, "PING"},
		{[]string{"GET", "key"}, "GET key"},
		{[]string{"auth", "secret"}, "auth … 1 more"},
		{[]string{"HSET", "key", "msg", "secret"}, "HSET key … 2 more"},
		{[]string{"evalsha", "abc", "2", "k1", "k2", "secret"}, "evalsha abc 2 k1 k2 … 1 more"},
		{[]string{"EVAL", "return 1", "9", "k1", "k2"}, "EVAL return 1 9 k1 k2"},
		{[]string{"EVALSHA", "abc", "0", "secret"}, "EVALSHA abc 0 … 1 more"},
		{[]string{"EVALSHA", "abc", "-1", "secret"}, "EVALSHA abc … 2 more"},
		{[]string{"EVALSHA", "abc", "9999999999999999999", "secret"}, "EVALSHA abc … 2 more"},
		{[]string{"EVALSHA", "abc", "100", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, "EVALSHA abc 100 1 2 3 4 5 6 7 8 … 1 more"},
		{[]string{"DEL", long}, "DEL " + long[:80] + "…"},
		{[]string{"DEL", "\xff"}, "DEL �"},
	} {
		wantEqual(t, fmt.Sprintf("%q", c.args), callText(c.args), c.want)
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	all := sections(infoText)
	if len(all) != 6 || all[0].Name != "Server" || all[5].Name != "Keyspace" || all[0].Fields[0] != (Field{"redis_version", "7.4.1"}) {
		t.Errorf("%+v", all)
	}
	wantEqual(t, "keyspaces", keyspaces(append(all[5].Fields, Field{"dbx", ""}, Field{"other", "keys=1"})),
		[]Keyspace{{DB: 0, Keys: 12, Expires: 3, AvgTTL: 1500 * time.Millisecond}, {DB: 5, Keys: 1}})
}
