package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// references validates references between sections and maps hosted tasks to their queues.
func (d *decoder) references(f *File, nodes map[string]*yaml.Node) {
	c := &f.service
	known := func(queue string) bool {
		_, ok := c.Queues[queue]
		return ok || !c.OnlyQueues
	}
	if c.OnlyQueues && len(c.Queues) == 0 {
		d.errorf(nodes["only_queues"], "only_queues is set, but queues is empty")
		return
	}
	for pattern, queue := range c.TaskQueues {
		if !known(queue) {
			d.errorf(find(nodes["task_queues"], pattern), "the queue %q is not under queues: add it or remove only_queues", queue)
		}
	}
	queues := f.hosted.Queues()
	rules := api.Rules{TaskQueues: c.TaskQueues}
	for _, typename := range slices.Sorted(maps.Keys(queues)) {
		queue := queues[typename]
		at := hostedNode(nodes["hosted"], typename)
		if err := api.CheckQueueName(queue); err != nil {
			d.errorf(at, "%v", err)
			continue
		}
		if !known(queue) {
			d.errorf(at, "the queue %q is not under queues: add it or remove only_queues", queue)
		}
		if given, ok := c.TaskQueues[typename]; ok && given != queue {
			d.errorf(at, "the queue is %q here but %q in task_queues: use the same queue", queue, given)
		}
		if rules.QueueOf(typename) != queue {
			if c.TaskQueues == nil {
				c.TaskQueues = make(map[string]string)
				rules.TaskQueues = c.TaskQueues
			}
			c.TaskQueues[typename] = queue
		}
		for i := range c.Tokens {
			if t := &c.Tokens[i]; slices.Contains(t.Scopes, service.Work) && slices.ContainsFunc(t.Queues, func(p string) bool { return auth.Matches(p, queue) }) {
				d.warnf(follow(nodes["tokens"]).Content[i], "the token %q may take tasks from the queue %q, whose tasks the service processes itself", t.Name, queue)
			}
		}
	}
	if c.OnlyQueues {
		d.tokenQueues(c, nodes["tokens"])
	}
}

// tokenQueues warns of patterns that no queue matches.
func (d *decoder) tokenQueues(c *service.Config, n *yaml.Node) {
	for i := range c.Tokens {
		for j, pattern := range c.Tokens[i].Queues {
			matches := func(queue string) bool { return auth.Matches(pattern, queue) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(c.Queues)), matches) {
				d.warnf(find(n, fmt.Sprintf("%d.queues.%d", i, j)), "no queue under queues matches %q", pattern)
			}
		}
	}
}

// hostedNode returns the node of a hosted type, or else the node of the section. find does not
// support types that contain dots.
func hostedNode(n *yaml.Node, typename string) *yaml.Node {
	for _, field := range []string{"http.endpoints", "cmd.commands"} {
		m := find(n, field)
		for i := 0; m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
			if m.Content[i].Value == typename {
				return m.Content[i]
			}
		}
	}
	return n
}

// exposure checks what other hosts on the network can access.
func (d *decoder) exposure(f *File, nodes map[string]*yaml.Node, tls *yaml.Node) {
	at := nodes["listen"]
	if at == nil {
		return // the default is localhost
	}
	host, port, err := net.SplitHostPort(f.service.Listen)
	if err != nil {
		d.errorf(at, "%.100q is not an address: use host:port, as in 127.0.0.1:8600, or :8600 for all interfaces", f.service.Listen)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		d.errorf(at, "%.50q is not a port", port)
	}
	if tls == nil && !local(host) {
		d.warnf(at, "tokens and tasks are sent without TLS: set tls, or listen on localhost behind a proxy")
	}
}

// local reports whether a host is the local machine.
func local(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
