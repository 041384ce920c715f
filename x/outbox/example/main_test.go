package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/proctest"
)

func TestExample(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	url := "http://" + l.Addr().String() + "/orders"
	for _, item := range []string{"tea", "milk"} {
		reply, err := http.Post(url, "text/plain", strings.NewReader(item))
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusAccepted {
			t.Errorf("POST: %s", reply.Status)
		}
	}
	want := "order 1: tea, parcels sent: 1\norder 2: milk, parcels sent: 1\n"
	proctest.Eventually(t, "both orders are shipped", func() bool {
		reply, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		return err == nil && string(text) == want
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
