package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

// A command uses the same namespace and connection for its client and its inspector.
func TestOneConnection(t *testing.T) {
	w := newWorld(t)
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: func(string) (string, bool) { return "", false }}}
	t.Cleanup(a.close)
	root := newRoot(a)
	var queues []string
	root.AddCommand(&cobra.Command{Use: "try", RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd)
		if err != nil {
			return err
		}
		if _, err := c.EnqueueContext(cmd.Context(), asynq.NewTask("x", nil), asynq.Queue("mine")); err != nil {
			return err
		}
		i, err := a.inspector(cmd)
		if err != nil {
			return err
		}
		queues, err = i.Queues()
		return err
	}})
	root.SetArgs([]string{"try", "-u", redisAddr, "--namespace", w.namespace})
	if err := root.ExecuteContext(t.Context()); err != nil || len(queues) != 1 || queues[0] != "mine" {
		t.Errorf("queues %v, %v; want the queue of the enqueued task", queues, err)
	}
	if n := a.shared.PoolStats().TotalConns; n != 1 {
		t.Errorf("%d connections; want one", n)
	}
}
