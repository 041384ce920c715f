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

// references holds what the parts of the file say of each other, and sends hosted tasks to their queues.
func (d *decoder) references(f *File, there map[string]*yaml.Node) {
	c := &f.service
	known := func(queue string) bool {
		_, ok := c.Queues[queue]
		return ok || !c.OnlyQueues
	}
	if c.OnlyQueues && len(c.Queues) == 0 {
		d.wrong(there["only_queues"], "no other queues than those under queues, and there are none")
		return
	}
	for pattern, queue := range c.TaskQueues {
		if !known(queue) {
			d.wrong(find(there["task_queues"], pattern), "the queue %q is not under queues: add it, or leave only_queues out", queue)
		}
	}
	queues := f.hosted.Queues()
	rules := api.Rules{TaskQueues: c.TaskQueues}
	for _, typename := range slices.Sorted(maps.Keys(queues)) {
		queue := queues[typename]
		at := hostedNode(there["hosted"], typename)
		if err := api.CheckQueueName(queue); err != nil {
			d.wrong(at, "%v", err)
			continue
		}
		if !known(queue) {
			d.wrong(at, "the queue %q is not under queues: add it, or leave only_queues out", queue)
		}
		if given, ok := c.TaskQueues[typename]; ok && given != queue {
			d.wrong(at, "its tasks go to the queue %q, but task_queues says %q: make them agree", queue, given)
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
				d.warn(follow(there["tokens"]).Content[i], "the token %q may take tasks from the queue %q, whose tasks the service carries out itself", t.Name, queue)
			}
		}
	}
	if c.OnlyQueues {
		d.tokenQueues(c, there["tokens"])
	}
}

// tokenQueues warns of patterns that no queue matches.
func (d *decoder) tokenQueues(c *service.Config, n *yaml.Node) {
	for i := range c.Tokens {
		for j, pattern := range c.Tokens[i].Queues {
			matches := func(queue string) bool { return auth.Matches(pattern, queue) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(c.Queues)), matches) {
				d.warn(find(n, fmt.Sprintf("%d.queues.%d", i, j)), "no queue under queues is %q", pattern)
			}
		}
	}
}

// hostedNode is where a type is, or at least what is hosted. Types may hold dots, so find is no help.
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

// exposure looks at what others on the network can see and reach.
func (d *decoder) exposure(f *File, there map[string]*yaml.Node, tls *yaml.Node) {
	at := there["listen"]
	if at == nil {
		return // the default is this machine
	}
	host, port, err := net.SplitHostPort(f.service.Listen)
	if err != nil {
		d.wrong(at, "%.100q is no address: write host:port, as in 127.0.0.1:8600, or :8600 for all interfaces", f.service.Listen)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		d.wrong(at, "%.50q is no port", port)
	}
	if tls == nil && !local(host) {
		d.warn(at, "tokens and tasks go over the network without TLS: give a certificate under tls, or listen on localhost and put a proxy in front")
	}
}

// local reports whether a host is this machine.
func local(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
