package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine is what the figures depend on.
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

// machine says where the run happens.
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

// String is a line for people.
func (m machine) String() string {
	text := fmt.Sprintf("%d cores (%s, %s), %s, Redis %s; github.com/hibiken/asynq %s", m.Cores, orElse(m.CPU, "CPU unknown"), m.System,
		m.Go, m.Redis, m.Hibiken)
	if m.BullMQ != "" {
		text += fmt.Sprintf("; BullMQ %s on Node %s", m.BullMQ, m.NodeJS)
	}
	return text + ". Clients, servers and Redis share the machine."
}

// cpuModel is the name of the CPU, where the system tells.
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

// moduleVersion is the version of a module in this program.
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
