package wire

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The commands that a server accepts from Inspectors. A command sets a state, so executing it twice
// changes nothing.
const (
	CommandQuiet       = "quiet"       // stop fetching
	CommandStop        = "stop"        // shut down
	CommandConcurrency = "concurrency" // set the number of slots to N
	CommandPause       = "pause"       // stop fetching from Queue
	CommandResume      = "resume"      // fetch from Queue again
)

// ServerCommand is a command of an Inspector to a server.
type ServerCommand struct {
	ID    string `json:"id"` // unique; names the reply
	Verb  string `json:"verb"`
	Queue string `json:"queue,omitempty"`
	N     int    `json:"n,omitempty"`
}

// Encode returns c in JSON.
func (c ServerCommand) Encode() (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("wire: encode ServerCommand: %w", err)
	}
	return string(b), nil
}

// DecodeServerCommand decodes a ServerCommand.
func DecodeServerCommand(text string) (c ServerCommand, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return ServerCommand{}, fmt.Errorf("wire: decode ServerCommand: %w", err)
	}
	return c, nil
}

// ServerControl is what a server publishes about commands and their effects.
type ServerControl struct {
	Refuses bool     `json:"refuses,omitempty"` // it executes no commands
	Paused  []string `json:"paused,omitempty"`  // queues that it does not fetch from, sorted
}

// Encode returns c in JSON.
func (c *ServerControl) Encode() ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("wire: encode ServerControl: %w", err)
	}
	return b, nil
}

// DecodeServerControl decodes a ServerControl.
func DecodeServerControl(text string) (*ServerControl, error) {
	var c ServerControl
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("wire: decode ServerControl: %w", err)
	}
	return &c, nil
}

// controlPrefix begins a message that wakes a server. Like the prefixes of cancellations, it begins
// with a byte that task IDs never contain.
const controlPrefix = "\x00control\x00"

// ControlMessage returns the message on the channel Cancel that makes a server read its commands at
// once. Servers read them with each heartbeat anyway.
func ControlMessage(serverID string) string { return controlPrefix + serverID }

// ParseControl is the inverse of ControlMessage. It reports false for other messages.
func ParseControl(message string) (serverID string, ok bool) {
	return strings.CutPrefix(message, controlPrefix)
}
