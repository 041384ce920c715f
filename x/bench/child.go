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

// laneEnv holds the order for a process that is to run one lane. Each lane has a process of its own, so that CPU time and
// allocations are that side's alone.
const laneEnv = "ASYNQ_BENCH_LANE"

// laneWithin is how long a lane may take in all, beside a soak.
const laneWithin = 3 * time.Minute

// laneOrder is what a lane's process is told.
type laneOrder struct {
	Workload string        `json:"workload"`
	Side     string        `json:"side"`
	Addr     string        `json:"addr"`
	Tasks    int           `json:"tasks"`
	Scale    float64       `json:"scale"`
	Soak     time.Duration `json:"soak"`
	Crowd    int           `json:"crowd,omitempty"`
}

// runLane is the main function of a lane's process. It does not end in order: the process ends what it started, and the server's
// last words are no part of the measurement.
func runLane(text string, out io.Writer) error {
	var order laneOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return fmt.Errorf("%s: %w", laneEnv, err)
	}
	w := find(order.Workload)
	s, ok := sides[order.Side]
	if w == nil || !ok {
		return fmt.Errorf("there is no lane %s of %s", order.Side, order.Workload)
	}
	l := &lane{ctx: context.Background(), side: s, addr: order.Addr, n: order.Tasks, scale: order.Scale, soak: order.Soak, crowd: order.Crowd}
	l.open()
	f, err := w.run(l)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f)
}

// find returns the workload of that name, nil if there is none.
func find(name string) *workload {
	for _, w := range workloads(true) {
		if w.name == name {
			return w
		}
	}
	for _, d := range dimensions(false) {
		for _, v := range d.values {
			if growthName(d.name, v) == name {
				return d.workload(v)
			}
		}
	}
	return nil
}

// spawn runs a lane in a process of its own, which is this program again.
func spawn(ctx context.Context, order *laneOrder) (*figures, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, laneWithin+order.Soak)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), laneEnv+"="+string(text))
	return measured(cmd)
}

// measured runs a command that prints figures, as JSON.
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
		return nil, errors.Join(err, fmt.Errorf("it printed %q", out.String()))
	}
	return f, nil
}
