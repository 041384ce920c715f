package prom

import (
	"log/slog"
	"time"
)

// NewPatient returns a client whose Types waits for the first response of Prometheus, however slow
// the machine is.
func NewPatient(address string, logger *slog.Logger) *Client {
	return newClient(address, logger, time.Minute, time.Minute)
}
