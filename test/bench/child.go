package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// laneEnv holds the order of a process that runs one lane. Each lane has its own process, so that
// CPU time and allocations belong to that side only.
const laneEnv = "ASYNQ_BENCH_LANE"

// laneTimeout is the timeout of a lane, in addition to a soak.
const laneTimeout = 3 * time.Minute

// laneConfig is the order of a lane process.
type laneConfig struct {
	Workload string        `json:"workload"`
	Side     string        `json:"side"`
	Addr     string        `json:"addr"` // of the server, or of a node of the Cluster
	Tasks    int           `json:"tasks"`
	Scale    float64       `json:"scale"` // of all other sizes
	Soak     time.Duration `json:"soak"`
	Crowd    int           `json:"crowd,omitempty"`    // maximum number of servers, queues, groups and active tasks; 0 means no limit
	Programs string        `json:"programs,omitempty"` // directory of the programs that the workload starts
	Profile  string        `json:"profile,omitempty"`  // file for a CPU profile; none if empty
}

// runLane is the main function of a lane process. It exits without shutting down what it started,
// which is not part of the measurement.
func runLane(text string, out io.Writer) error {
	var order laneConfig
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return fmt.Errorf("%s: %w", laneEnv, err)
	}
	w := find(order.Workload)
	s, ok := sides[order.Side]
	if w == nil || !ok {
		return fmt.Errorf("unknown lane %s of %s", order.Side, order.Workload)
	}
	l := &lane{ctx: context.Background(), laneConfig: order, side: s, cluster: w.cluster}
	l.open()
	f, err := w.run(l)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f)
}

// find returns the workload with a name; nil if there is none.
func find(name string) *workload {
	for _, w := range workloads(true) {
		if w.name == name {
			return w
		}
	}
	for _, d := range dimensions(false) {
		for _, w := range d.workloads() {
			if w.name == name {
				return w
			}
		}
	}
	return nil
}

// spawn runs a lane in a separate process of this program.
func spawn(ctx context.Context, order *laneConfig) (*figures, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	limit := laneTimeout + order.Soak
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s of %s takes more than %s", order.Side, order.Workload, limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), laneEnv+"="+string(text))
	f, err := measured(cmd)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return f, nil
}

// measured runs a command that prints figures as JSON.
func measured(cmd *exec.Cmd) (*figures, error) {
	proctest.DieWithParent(cmd)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		const most = 2000
		return nil, fmt.Errorf("%w\n%s", err, log.Bytes()[:min(log.Len(), most)])
	}
	f := new(figures)
	if err := json.Unmarshal(out.Bytes(), f); err != nil {
		return nil, errors.Join(err, fmt.Errorf("output %q", out.String()))
	}
	return f, nil
}
