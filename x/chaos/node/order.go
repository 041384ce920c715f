// Package node is the worker and producer processes of a run, on either library. They report to a history what they do.
package node

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// orderEnv holds the Order for a process that is a node.
const orderEnv = "ASYNQ_CHAOS_NODE"

// The libraries that a node can use.
const (
	Ours   = "ours"
	Theirs = "reference"
)

// Order is what a node is told. One of Worker and Producer is set.
type Order struct {
	Process string        `json:"process"` // its name in the history
	Library string        `json:"library"`
	History string        `json:"history"` // directory
	Redis   Target        `json:"redis"`
	Proxy   string        `json:"proxy"` // a network.Proxy, by way of which it reaches Redis
	Skew    time.Duration `json:"skew"`  // how far ahead its clock is

	Worker   *Worker   `json:"worker,omitempty"`
	Producer *Producer `json:"producer,omitempty"`
}

// Kinds of targets.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Target says where Redis is: one server, sentinels that know a master, or nodes of a Cluster.
type Target struct {
	Kind   string   `json:"kind"`
	Addrs  []string `json:"addrs"`
	Master string   `json:"master,omitempty"`
}

// Worker says how a worker works.
type Worker struct {
	Concurrency int            `json:"concurrency"`
	Queues      map[string]int `json:"queues"`
	Lease       time.Duration  `json:"lease"` // 0: the library's own; the reference knows no other
}

// Producer says what a producer enqueues: tasks number First to Last, of the same plans whenever the seed is the same.
type Producer struct {
	First  int      `json:"first"`
	Last   int      `json:"last"`
	Rate   float64  `json:"rate"` // tasks/s
	Seed   uint64   `json:"seed"`
	Queues []string `json:"queues"`
	Poison bool     `json:"poison"` // some tasks panic, hang, crash their process, or return much
}

// Env is the environment variable that makes a process a node.
func (o *Order) Env() (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	return orderEnv + "=" + string(text), nil
}

// Main runs the node that the environment asks for, and ends the process; it returns at once if none is asked for.
func Main() {
	text, ok := os.LookupEnv(orderEnv)
	if !ok {
		return
	}
	if err := run(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(text string) error {
	var o Order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("%s: %w", orderEnv, err)
	}
	lib, ok := libraries[o.Library]
	if !ok {
		return fmt.Errorf("%s: no library %q", orderEnv, o.Library)
	}
	w, err := history.Create(o.History, o.Process, o.Skew)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the harness is gone
		os.Exit(1)
	}()
	conn := &conn{Target: o.Redis, proxy: o.Proxy}
	if o.Worker != nil {
		err = work(lib, conn, o.Worker, w)
	} else {
		err = produce(lib, conn, o.Producer, o.Process, w)
	}
	if err != nil {
		return err
	}
	return w.Close()
}
