package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDashRequiresTerminal(t *testing.T) {
	w := newWorld(t)
	r := w.raw(t.Context(), "dash")
	if r.code != ExitUsage || r.out != "" || !strings.Contains(r.err, "dash requires a terminal") {
		t.Errorf("got %+v", r)
	}
	if r = w.raw(t.Context(), "dash", "--refresh", "1ms"); r.code != ExitUsage || !strings.Contains(r.err, "--refresh must be at least") {
		t.Errorf("got %+v", r)
	}
}

func TestDash(t *testing.T) {
	for _, args := range [][]string{{"dash", "--refresh", "1s"}, {"dash", "--read-only"}} {
		var out, complaints bytes.Buffer
		s := Streams{
			In: strings.NewReader("q"), Out: &out, Err: &complaints, InIsTerminal: true, OutIsTerminal: true,
			Env: func(string) (string, bool) { return "", false },
		}
		code := make(chan int, 1)
		// The screen shows that Redis is unreachable. The command runs until the user quits.
		go func() { code <- Run(t.Context(), append([]string{"--uri", "127.0.0.1:1"}, args...), s) }()
		select {
		case got := <-code:
			if got != ExitDone || complaints.Len() > 0 {
				t.Errorf("asynq %v: exit code %d, %s", args, got, complaints.String())
			}
		case <-time.After(time.Minute):
			t.Fatalf("asynq %v does not end", args)
		}
	}
}
