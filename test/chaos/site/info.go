package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fields holds the fields of INFO by name.
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

// number returns the value of a numeric field; 0 if it is missing or not a number.
func (f fields) number(name string) int64 {
	v, _ := strconv.ParseInt(f[name], 10, 64) // 0 for a missing field
	return v
}

// info returns a section of INFO.
func (n *Node) info(ctx context.Context, section string) (fields, error) {
	text, err := n.client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return parseFields(text), nil
}

// Role is the role of a node, as reported by itself.
type Role string

// Roles of nodes. A primary that was frozen or killed reports this role until it is demoted.
const (
	Primary Role = "primary"
	Replica Role = "replica"
	Judge   Role = "sentinel"
)

var errDown = errors.New("down or frozen")

// Role returns the role of the node. It returns an error if the node is down or frozen.
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

// Keys returns the number of keys of the node.
func (n *Node) Keys(ctx context.Context) (int64, error) { return n.client.DBSize(ctx).Result() }

// Commands returns the number of commands that the node has processed since its start, including
// those of scripts.
func (n *Node) Commands(ctx context.Context) (int64, error) {
	info, err := n.info(ctx, "stats")
	return info.number("total_commands_processed"), err
}

// Memory returns the memory usage of the node in bytes.
func (n *Node) Memory(ctx context.Context) (int64, error) {
	info, err := n.info(ctx, "memory")
	return info.number("used_memory"), err
}
