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

// StartCluster starts a Cluster of one node for a test, with all slots, which ends with it. See NewRedis.
func StartCluster(t testing.TB, args ...string) *Redis {
	t.Helper()
	return forTest(t, NewCluster, args)
}

// NewCluster starts a Cluster of one node, with all slots, and returns when it serves them: two seconds later, as a new node waits so
// long for others. The caller closes it.
func NewCluster(args ...string) (*Redis, error) {
	r, err := NewRedis(append([]string{"--cluster-enabled", "yes"}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := r.takeAllSlots(); err != nil {
		r.Close()
		return nil, fmt.Errorf("making a Cluster: %w", err)
	}
	return r, nil
}

func (r *Redis) takeAllSlots() error {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(readyWithin)); err != nil {
		return err
	}
	replies := bufio.NewReader(conn)
	if _, err := ask(conn, replies, "CLUSTER ADDSLOTSRANGE 0 16383"); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		info, err := ask(conn, replies, "CLUSTER INFO")
		if err != nil || strings.Contains(info, "cluster_state:ok") {
			return err
		}
	}
}

// ask sends an inline command, whose words have no spaces in them, and reads a reply that is a line or a text.
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
