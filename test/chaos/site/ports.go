package site

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are below those that kernels assign to outgoing connections, because a killed server must
// find its port free when it restarts. Cluster nodes also listen on the port plus 10,000.
const (
	firstPort = 12000
	lastPort  = 21999
	busAbove  = 10000
)

// errPortTaken means that another process has taken a port.
var errPortTaken = errors.New("the port is taken")

// takenPorts holds the ports of all sites of this process, so that concurrent starts do not choose
// the same ones.
var takenPorts = struct {
	sync.Mutex
	set map[int]bool
}{set: make(map[int]bool)}

// takePort returns a port that is free together with its Cluster bus port.
func takePort() (int, error) {
	takenPorts.Lock()
	defer takenPorts.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if !takenPorts.set[port] && free(port) && free(port+busAbove) {
			takenPorts.set[port] = true
			return port, nil
		}
	}
	return 0, errors.New("no free port between 12000 and 22000")
}

func returnPorts(ports []int) {
	takenPorts.Lock()
	defer takenPorts.Unlock()
	for _, p := range ports {
		delete(takenPorts.set, p)
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
