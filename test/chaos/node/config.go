// Package node implements the worker and producer processes of a run with either library. They
// record their actions in a history.
package node

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// configEnv names the environment variable with the Config of a node process.
const configEnv = "ASYNQ_CHAOS_NODE"

// Libraries of nodes.
const (
	Ours   = "ours"
	Theirs = "reference"
)

// Config configures a node. Exactly one of Worker and Producer is set.
type Config struct {
	Process string        `json:"process"` // name in the history
	Library string        `json:"library"`
	History string        `json:"history"` // directory
	Redis   Target        `json:"redis"`
	Proxy   string        `json:"proxy"` // address of a network.Proxy to Redis
	Skew    time.Duration `json:"skew"`  // how far its clock is ahead

	Worker   *Worker   `json:"worker,omitempty"`
	Producer *Producer `json:"producer,omitempty"`
}

// Kinds of targets.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Target is the address of Redis: one server, Sentinels with a master name, or nodes of a Cluster.
type Target struct {
	Kind   string   `json:"kind"`
	Addrs  []string `json:"addrs"`
	Master string   `json:"master,omitempty"`
}

// Worker configures a worker.
type Worker struct {
	Concurrency int            `json:"concurrency"`
	Queues      map[string]int `json:"queues"`
	Lease       time.Duration  `json:"lease"` // 0 means the default; fixed in the reference
}

// Producer configures a producer: it enqueues tasks First to Last, whose plans depend on the seed.
type Producer struct {
	First  int      `json:"first"`
	Last   int      `json:"last"`
	Rate   float64  `json:"rate"` // tasks/s
	Seed   uint64   `json:"seed"`
	Queues []string `json:"queues"`
	Poison bool     `json:"poison"` // some tasks panic, hang, crash their process, or have large results
}

// Env returns the environment variable that makes a process a node.
func (o *Config) Env() (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	return configEnv + "=" + string(text), nil
}

// Main runs the node of the environment variable and exits. It returns if there is none.
func Main() {
	text, ok := os.LookupEnv(configEnv)
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
	var o Config
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("%s: %w", configEnv, err)
	}
	lib, ok := libraries[o.Library]
	if !ok {
		return fmt.Errorf("%s: no library %q", configEnv, o.Library)
	}
	w, err := history.Create(o.History, o.Process, o.Skew)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the harness exits
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
