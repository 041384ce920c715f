package proctest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slotCount = 16384

// StartCluster starts a Cluster of one node that serves all slots, and stops it when the test ends.
// See NewRedis.
func StartCluster(t testing.TB, args ...string) *Redis {
	t.Helper()
	return StartPrimaries(t, 1, args...)[0]
}

// StartPrimaries starts a Cluster of n primaries, and stops it when the test ends. See
// NewPrimaries.
func StartPrimaries(t testing.TB, n int, args ...string) []*Redis {
	t.Helper()
	NeedRedis(t)
	nodes, err := NewPrimaries(n, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range nodes {
		r.closeAfter(t)
	}
	return nodes
}

// NewCluster starts a Cluster of one node that serves all slots. See NewPrimaries.
func NewCluster(args ...string) (*Redis, error) {
	nodes, err := NewPrimaries(1, args...)
	if err != nil {
		return nil, err
	}
	return nodes[0], nil
}

// NewPrimaries starts a Cluster of n primaries without replicas, with equal shares of the slots,
// and returns when all nodes serve it: after two seconds, because a new node waits that long for
// others. The caller must close the nodes.
func NewPrimaries(n int, args ...string) (nodes []*Redis, err error) {
	defer func() {
		if err != nil {
			for _, r := range nodes {
				r.Close()
			}
			nodes, err = nil, fmt.Errorf("create Cluster: %w", err)
		}
	}()
	for i := range n {
		r, err := NewRedis(append([]string{"--cluster-enabled", "yes"}, args...)...)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, r)
		if err := r.join(nodes[0], i, n); err != nil {
			return nodes, err
		}
	}
	for _, r := range nodes {
		if err := r.untilServing(n); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// join assigns the slots of node i of n, and connects the node to the first one.
func (r *Redis) join(first *Redis, i, n int) error {
	return r.admin(func(ask func(string) (string, error)) error {
		if _, err := ask(fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1)); err != nil {
			return err
		}
		const most = 1000 // slots per command: the length of a line is limited
		end := slotCount * (i + 1) / n
		for slot := slotCount * i / n; slot < end; {
			var command strings.Builder
			command.WriteString("CLUSTER ADDSLOTS") // ADDSLOTSRANGE needs Redis 7
			for range min(most, end-slot) {
				command.WriteString(" " + strconv.Itoa(slot))
				slot++
			}
			if _, err := ask(command.String()); err != nil {
				return err
			}
		}
		if r == first {
			return nil
		}
		host, port, err := net.SplitHostPort(first.addr)
		if err != nil {
			return err
		}
		_, err = ask("CLUSTER MEET " + host + " " + port)
		return err
	})
}

// untilServing waits until the node knows n nodes and an owner of each slot.
func (r *Redis) untilServing(n int) error {
	return r.admin(func(ask func(string) (string, error)) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ; <-tick.C {
			info, err := ask("CLUSTER INFO")
			if err != nil {
				return err
			}
			if strings.Contains(info, "cluster_state:ok\r") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", slotCount)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n)) {
				return nil
			}
		}
	})
}

// admin calls do with a function that sends a command to the server, on a connection that fails
// after readyWithin.
func (r *Redis) admin(do func(ask func(command string) (string, error)) error) error {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(readyWithin)); err != nil {
		return err
	}
	replies := bufio.NewReader(conn)
	return do(func(command string) (string, error) { return ask(conn, replies, command) })
}

// ask sends an inline command, whose arguments must not contain spaces, and reads a reply of one
// line or one bulk string.
func ask(conn io.Writer, replies *bufio.Reader, command string) (string, error) {
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	line, err := replies.ReadString('\n')
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("%s: %s", command, strings.TrimSpace(line[1:]))
	case !strings.HasPrefix(line, "$"):
		return line, nil
	}
	size, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return "", err
	}
	text := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(replies, text)
	return string(text), err
}
