package prom

import (
	"log/slog"
	"time"
)

// NewPatient returns a client whose Types comes back when Prometheus has answered, however slow this machine is.
func NewPatient(address string, logger *slog.Logger) *Client {
	return newClient(address, logger, time.Minute, time.Minute)
}
