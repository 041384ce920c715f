package site

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below those that kernels give to outgoing connections, as a server that was killed must find its own
// free when it comes back. The nodes of a Cluster also listen on the port 10,000 above.
const (
	firstPort = 12000
	lastPort  = 21999
	busAbove  = 10000
)

// errPortTaken says that another process has taken a port in the meantime.
var errPortTaken = errors.New("the port is taken")

// takenPorts are those of all sites of this process: two that start at the same time would find the same ones free.
var takenPorts = struct {
	sync.Mutex
	set map[int]bool
}{set: make(map[int]bool)}

// takePort finds a port that is free together with the one for the Cluster bus.
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
