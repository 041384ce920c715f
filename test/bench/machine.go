package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine describes the machine, which the figures depend on.
type machine struct {
	Cores   int    `json:"cores"`
	CPU     string `json:"cpu,omitempty"`
	System  string `json:"system"`
	Go      string `json:"go"`
	Redis   string `json:"redis"`
	Hibiken string `json:"hibiken"`
	BullMQ  string `json:"bullmq,omitempty"`
	NodeJS  string `json:"node,omitempty"`
}

// machine returns the machine of the run.
func (b *bench) machine(ctx context.Context) machine {
	m := machine{
		Cores: runtime.NumCPU(), CPU: cpuModel(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Redis: b.server.version(ctx), Hibiken: moduleVersion("github.com/hibiken/asynq"),
	}
	if b.bullmq != nil {
		m.BullMQ, m.NodeJS = b.bullmq.version, b.bullmq.node
	}
	return m
}

// String returns readable lines of at most 100 columns.
func (m machine) String() string {
	text := fmt.Sprintf("%d cores (%s, %s), %s, Redis %s;\ngithub.com/hibiken/asynq %s", m.Cores, orElse(m.CPU, "CPU unknown"), m.System,
		m.Go, m.Redis, m.Hibiken)
	if m.BullMQ != "" {
		text += fmt.Sprintf("; BullMQ %s on Node %s", m.BullMQ, m.NodeJS)
	}
	return text + ".\nClients, servers and Redis share the machine."
}

// cpuModel returns the name of the CPU, if known.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// moduleVersion returns the version of a module in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return ""
}
