package config

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

func (d *decoder) hosted(n *yaml.Node, to *Hosted) {
	to.Concurrency, to.ShutdownTimeout = 10, 30*time.Second
	there := d.mapping(n, fields{
		"concurrency": &to.Concurrency, "shutdown_timeout": &to.ShutdownTimeout,
		"http": func(n *yaml.Node) { d.http(n, &to.Config) },
		"cmd":  func(n *yaml.Node) { d.cmd(n, &to.Config) },
	})
	if to.Concurrency < 1 || to.Concurrency > 10000 {
		d.wrong(there["concurrency"], "it must be from 1 to 10000")
	}
	for typename := range to.Commands {
		if _, both := to.Endpoints[typename]; both {
			d.wrong(there["cmd"], "%q is under http as well: give one of them another name", typename)
		}
	}
}

func (d *decoder) http(n *yaml.Node, to *hosted.Config) {
	nodes := make(map[string]*yaml.Node)
	to.Endpoints = make(map[string]hosted.Endpoint)
	there := d.mapping(n, fields{
		"allow_hosts": &to.HTTP.AllowHosts,
		"allow_networks": func(n *yaml.Node) {
			d.list(n, func(_ int, n *yaml.Node) { to.HTTP.AllowNetworks = append(to.HTTP.AllowNetworks, d.network(n)) })
		},
		"ca": path{&to.HTTP.CAFile},
		"endpoints": func(n *yaml.Node) {
			d.each(n, func(typename string, at, n *yaml.Node) {
				d.typename(at)
				nodes[typename] = n
				to.Endpoints[typename] = d.endpoint(n)
			})
		},
	})
	d.problems(n, to.HTTP.Check())
	if to.HTTP.CAFile != "" {
		d.authorities(there["ca"], to.HTTP.CAFile)
	}
	for typename := range nodes {
		e := to.Endpoints[typename]
		u, err := url.Parse(e.URL)
		if err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "" {
			continue
		}
		at := find(nodes[typename], "url")
		if to.HTTP.AllowHosts != nil && !to.HTTP.Admits(u) {
			d.wrong(at, "the host %q is not in allow_hosts: add it there, or choose another one", u.Host)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" {
			addr, err = netip.MustParseAddr("127.0.0.1"), nil
		}
		if err == nil && !to.HTTP.Reaches(addr) {
			d.warn(at, "%s is no public address, so each task is refused: add its network to allow_networks if it is meant", u.Hostname())
		}
	}
}

func (d *decoder) typename(at *yaml.Node) {
	if strings.TrimSpace(at.Value) == "" {
		d.wrong(at, "the type of the tasks is blank")
	}
}

func (d *decoder) network(n *yaml.Node) netip.Prefix {
	var text string
	d.value(n, &text)
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen())
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		d.wrong(n, "%.50q is no network: write it as in 10.1.0.0/16 or 127.0.0.1", text)
		return netip.Prefix{}
	}
	return network.Masked()
}

func (d *decoder) endpoint(n *yaml.Node) hosted.Endpoint {
	var e hosted.Endpoint
	var response int64
	answers := "archive"
	there := d.mapping(n, fields{
		"queue": &e.Queue, "url": &e.URL, "timeout": bound{&e.Timeout}, "max_response": bound{size{&response}}, "max_redirects": &e.MaxRedirects,
		"snooze_when_busy": &e.SnoozeWhenBusy, "max_retry_after": bound{&e.MaxRetryAfter}, "client_errors": &answers,
		"secret": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				e.Secrets = append(e.Secrets, "")
				d.value(n, secret{&e.Secrets[0]})
				return
			}
			d.list(n, func(_ int, n *yaml.Node) {
				var s string
				d.value(n, secret{&s})
				e.Secrets = append(e.Secrets, s)
			})
		},
		"headers": func(n *yaml.Node) { e.Headers = d.pairs(n) },
	})
	e.MaxResponse = int(min(response, 1<<30))
	switch answers {
	case "archive":
	case "retry":
		e.RetryClientErrors = true
	default:
		d.wrong(there["client_errors"], "%.50q: write archive or retry", answers)
	}
	if len(e.Secrets) == 0 {
		d.warn(n, "requests are not signed, so the endpoint cannot tell who sends them: give a secret")
	}
	if u, err := url.Parse(e.URL); err == nil && u.Scheme == "http" && !local(u.Hostname()) {
		d.warn(there["url"], "requests go over the network without TLS: write https")
	}
	d.problems(n, e.Check())
	return e
}

// pairs reads texts by name. Values may be secrets.
func (d *decoder) pairs(n *yaml.Node) map[string]string {
	values := make(map[string]string)
	d.each(n, func(name string, _, n *yaml.Node) {
		var value string
		literal := d.literal
		d.value(n, secret{&value})
		d.literal = literal // most are none
		values[name] = value
	})
	return values
}

// problems tells what is wrong with the fields of a mapping, where they are.
func (d *decoder) problems(n *yaml.Node, found []hosted.Problem) {
	for _, p := range found {
		at := find(n, p.Field)
		d.wrong(at, "%s%s", nameOf(p.Field), p.Text)
	}
}

// nameOf is what a problem's field is called in front of its text.
func nameOf(field string) string {
	if field == "" {
		return ""
	}
	return field + ": "
}

// find returns the node of a field, or of the nearest that is there around it.
func find(n *yaml.Node, field string) *yaml.Node {
	n = follow(n)
	for step := range strings.SplitSeq(field, ".") {
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = follow(n.Content[i+1])
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
				next = follow(n.Content[i])
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
