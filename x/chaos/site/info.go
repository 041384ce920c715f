package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fields are what a node tells of itself, by name.
type fields map[string]string

func parseFields(text string) fields {
	f := make(fields)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f
}

// number is a field's value, 0 if it is none or not there.
func (f fields) number(name string) int64 {
	v, _ := strconv.ParseInt(f[name], 10, 64) // a field that is not there is 0
	return v
}

// info asks for a section of INFO.
func (n *Node) info(ctx context.Context, section string) (fields, error) {
	text, err := n.client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return parseFields(text), nil
}

// Role is what a node takes itself for.
type Role string

// Roles of nodes. A primary that was frozen or killed takes itself for one until it is told otherwise.
const (
	Primary Role = "primary"
	Replica Role = "replica"
	Judge   Role = "sentinel"
)

var errDown = errors.New("down or frozen")

// Role asks the node. One that is down or frozen has none: then there is an error.
func (n *Node) Role(ctx context.Context) (Role, error) {
	if !n.Alive() {
		return "", fmt.Errorf("%s: %w", n, errDown)
	}
	if n.sentinel {
		return Judge, n.client.Ping(ctx).Err()
	}
	info, err := n.info(ctx, "replication")
	if err != nil {
		return "", err
	}
	if info["role"] == "master" {
		return Primary, nil
	}
	return Replica, nil
}

// Keys is how many keys the node holds.
func (n *Node) Keys(ctx context.Context) (int64, error) { return n.client.DBSize(ctx).Result() }

// Commands is how many commands the node has processed since it was started, those that scripts made included. The rate is the
// difference of two, by the time between them.
func (n *Node) Commands(ctx context.Context) (int64, error) {
	info, err := n.info(ctx, "stats")
	return info.number("total_commands_processed"), err
}

// Memory is how many bytes of memory the node uses.
func (n *Node) Memory(ctx context.Context) (int64, error) {
	info, err := n.info(ctx, "memory")
	return info.number("used_memory"), err
}
