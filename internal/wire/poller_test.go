package wire_test

import (
	"maps"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestPoller(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web-1:4711", "a name with spaces", "ä"} {
		want := wire.Poller{Name: name, LastPoll: time.UnixMilli(1_700_000_000_123)}
		if got, ok := wire.ParsePoller(want.Encode()); !ok || got.Name != name || !got.LastPoll.Equal(want.LastPoll) {
			t.Errorf("%q is parsed as %+v, %t", want.Encode(), got, ok)
		}
	}
	for _, text := range []string{"", "5", "5 ", "x name", " name"} {
		if got, ok := wire.ParsePoller(text); ok {
			t.Errorf("%q is parsed as %+v", text, got)
		}
	}
}

func TestServerPatternsKey(t *testing.T) {
	t.Parallel()
	server := wire.DefaultNamespace.Server(wire.Process{Host: "web-1", PID: 42, ID: "1b4e"})
	if got := wire.ServerPatterns(server); got != "asynq:servers:{web-1:42:1b4e}:patterns" || slot(got) != slot(server) {
		t.Errorf("the key is %s", got)
	}
}

func TestServerPartitions(t *testing.T) {
	t.Parallel()
	server := wire.DefaultNamespace.Server(wire.Process{Host: "web-1", PID: 42, ID: "1b4e"})
	if got := wire.ServerPartitionsKey(server); got != "asynq:servers:{web-1:42:1b4e}:partitions" || slot(got) != slot(server) {
		t.Errorf("the key is %s", got)
	}
	want := wire.ServerPartitions{"hooks": {Limits: "weight=2", ByType: true}, "": {}}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := wire.DecodeServerPartitions(string(text)); err != nil || !maps.Equal(got, want) {
		t.Errorf("%s is decoded as %+v, %v", text, got, err)
	}
	for _, text := range []string{"", "[]", `{"q":1}`} {
		if got, err := wire.DecodeServerPartitions(text); err == nil {
			t.Errorf("%q is decoded as %+v", text, got)
		}
	}
}

func TestServerPoller(t *testing.T) {
	t.Parallel()
	server := wire.DefaultNamespace.Server(wire.Process{Host: "web-1", PID: 42, ID: "1b4e:77"})
	if got := wire.ServerPoller(server); got != "asynq:servers:{web-1:42:1b4e:77}:poller" || slot(got) != slot(server) {
		t.Errorf("the key is %s", got)
	}
}
