package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newServer(a *app) *cobra.Command {
	return group("server", "Inspect and operate running servers",
		newServerLs(a), newServerQuiet(a), newServerStop(a), newServerPause(a), newServerResume(a), newServerConcurrency(a),
	)
}

// serverRow is a server in machine-readable output.
type serverRow struct {
	ID             string         `json:"id"`
	Host           string         `json:"host"`
	PID            int            `json:"pid"`
	Concurrency    int            `json:"concurrency"`
	Queues         map[string]int `json:"queue_priorities"`
	StrictPriority bool           `json:"strict_priority_enabled"`
	Started        time.Time      `json:"start_time"`
	Status         string         `json:"status"`
	Workers        []workerRow    `json:"active_workers"`
	Worker         string         `json:"worker,omitempty"`   // name of a worker that polls the queue service; empty for a server
	LastPoll       time.Time      `json:"last_poll,omitzero"` // of a worker
	Patterns       []string       `json:"patterns,omitzero"`  // of the types that it handles; absent if unknown
	Paused         []string       `json:"paused_queues,omitempty"`
	RemoteControl  bool           `json:"remote_control"` // it accepts commands
}

// workerRow is an active task of a server.
type workerRow struct {
	TaskID        string    `json:"task_id"`
	Queue         string    `json:"queue"`
	TaskType      string    `json:"task_type"`
	Payload       string    `json:"task_payload"`        // empty if it is not text
	PayloadBase64 string    `json:"task_payload_base64"` // empty if it is text
	Started       time.Time `json:"start_time"`
	Deadline      time.Time `json:"deadline,omitzero"`
}

func newServerRow(s *asynq.ServerInfo) *serverRow {
	row := &serverRow{
		ID: s.ID, Host: s.Host, PID: s.PID, Concurrency: s.Concurrency, Queues: s.Queues, StrictPriority: s.StrictPriority,
		Started: s.Started, Status: s.Status, Workers: make([]workerRow, len(s.ActiveWorkers)),
		Worker: s.Worker, LastPoll: s.LastPoll, Patterns: s.Patterns, Paused: s.PausedQueues, RemoteControl: s.RemoteControl,
	}
	for n, w := range s.ActiveWorkers {
		row.Workers[n] = workerRow{
			TaskID: w.TaskID, Queue: w.Queue, TaskType: w.TaskType, Started: w.Started, Deadline: w.Deadline,
		}
		row.Workers[n].Payload, row.Workers[n].PayloadBase64 = textOrBase64(w.TaskPayload)
	}
	return row
}

// kind distinguishes workers of the queue service from servers.
func (s *serverRow) kind() string {
	if s.Worker != "" {
		return "worker"
	}
	return "server"
}

// queues returns the queues with their priorities, highest first.
func (s *serverRow) queues() string {
	names := slices.Sorted(maps.Keys(s.Queues))
	slices.SortStableFunc(names, func(a, b string) int { return s.Queues[b] - s.Queues[a] })
	for n, name := range names {
		names[n] = fmt.Sprintf("%s:%d", name, s.Queues[name])
	}
	for _, name := range s.Paused {
		names = append(names, name+":paused")
	}
	return strings.Join(names, " ")
}

var serverColumns = []out.Column[*serverRow]{
	{Head: "HOST", Cell: func(s *serverRow) string { return s.Host }},
	{Head: "PID", Right: true, Cell: func(s *serverRow) string { return fmt.Sprint(s.PID) }},
	{Head: "STATE", Cell: func(s *serverRow) string { return s.Status }, Style: func(s *serverRow) out.Style {
		if s.Status == "active" {
			return out.Good
		}
		return out.Warn
	}},
	{Head: "ACTIVE WORKERS", Right: true, Cell: func(s *serverRow) string { return fmt.Sprintf("%d/%d", len(s.Workers), s.Concurrency) }},
	{Head: "QUEUES", Cell: (*serverRow).queues},
	{Head: "STARTED", Cell: func(s *serverRow) string { return out.Time(s.Started) }},
	{Head: "KIND", Cell: (*serverRow).kind},
	{Head: "LAST POLL", Wide: true, Cell: func(s *serverRow) string { return out.Time(s.LastPoll) }},
	{Head: "PATTERNS", Wide: true, Cell: func(s *serverRow) string { return strings.Join(s.Patterns, " ") }},
	{Head: "STRICT", Wide: true, Cell: func(s *serverRow) string { return fmt.Sprint(s.StrictPriority) }},
	{Head: "ID", Wide: true, Cell: func(s *serverRow) string { return s.ID }},
}

func newServerLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List running servers and the workers that poll the queue service",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listEach(a, cmd, serverColumns, (*asynq.Inspector).Servers, newServerRow)
		},
	}
	addListing(cmd)
	return cmd
}
