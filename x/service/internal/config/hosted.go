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
	nodes := d.mapping(n, fields{
		"concurrency": &to.Concurrency, "shutdown_timeout": &to.ShutdownTimeout, "attempt_log": bound{&to.AttemptLog},
		"http": func(n *yaml.Node) { d.http(n, &to.Config) },
		"cmd":  func(n *yaml.Node) { d.cmd(n, &to.Config) },
	})
	if to.Concurrency < 1 || to.Concurrency > 10000 {
		d.errorf(nodes["concurrency"], "must be from 1 to 10000")
	}
	if to.AttemptLog < 0 {
		d.errorf(nodes["attempt_log"], "must not be negative")
	}
	for typename := range to.Commands {
		if _, both := to.Endpoints[typename]; both {
			d.errorf(nodes["cmd"], "%q is under http as well: rename one of them", typename)
		}
	}
}

func (d *decoder) http(n *yaml.Node, to *hosted.Config) {
	endpoints := make(map[string]*yaml.Node)
	to.Endpoints = make(map[string]hosted.Endpoint)
	nodes := d.mapping(n, fields{
		"allow_hosts": &to.HTTP.AllowHosts,
		"allow_networks": func(n *yaml.Node) {
			d.list(n, func(_ int, n *yaml.Node) { to.HTTP.AllowNetworks = append(to.HTTP.AllowNetworks, d.network(n)) })
		},
		"ca": path{&to.HTTP.CAFile},
		"endpoints": func(n *yaml.Node) {
			d.each(n, func(typename string, at, n *yaml.Node) {
				d.typename(at)
				endpoints[typename] = n
				to.Endpoints[typename] = d.endpoint(n)
			})
		},
	})
	d.problems(n, to.HTTP.Check())
	if to.HTTP.CAFile != "" {
		d.authorities(nodes["ca"], to.HTTP.CAFile)
	}
	for typename := range endpoints {
		e := to.Endpoints[typename]
		u, err := url.Parse(e.URL)
		if err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "" {
			continue
		}
		at := find(endpoints[typename], "url")
		if to.HTTP.AllowHosts != nil && !to.HTTP.AllowsURL(u) {
			d.errorf(at, "the host %q is not in allow_hosts: add it or use another host", u.Host)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" {
			addr, err = netip.MustParseAddr("127.0.0.1"), nil
		}
		if err == nil && !to.HTTP.AllowsAddress(addr) {
			d.warnf(at, "%s is not a public address, so every task fails: add its network to allow_networks if this is intended", u.Hostname())
		}
	}
}

func (d *decoder) typename(at *yaml.Node) {
	if strings.TrimSpace(at.Value) == "" {
		d.errorf(at, "the task type must not be blank")
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
		d.errorf(n, "%.50q is not a network: use the form 10.1.0.0/16 or 127.0.0.1", text)
		return netip.Prefix{}
	}
	return network.Masked()
}

func (d *decoder) endpoint(n *yaml.Node) hosted.Endpoint {
	var e hosted.Endpoint
	var response int64
	answers := "archive"
	nodes := d.mapping(n, fields{
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
		d.errorf(nodes["client_errors"], "%.50q is not supported: use archive or retry", answers)
	}
	if len(e.Secrets) == 0 {
		d.warnf(n, "requests are not signed, so the endpoint cannot authenticate them: set secret")
	}
	if u, err := url.Parse(e.URL); err == nil && u.Scheme == "http" && !local(u.Hostname()) {
		d.warnf(nodes["url"], "requests are sent without TLS: use https")
	}
	d.problems(n, e.Check())
	return e
}

// pairs reads a mapping of strings. Values may be secrets.
func (d *decoder) pairs(n *yaml.Node) map[string]string {
	values := make(map[string]string)
	d.each(n, func(name string, _, n *yaml.Node) {
		var value string
		literal := d.literal
		d.value(n, secret{&value})
		d.literal = literal // most are not secrets
		values[name] = value
	})
	return values
}

// problems reports problems at the positions of their fields.
func (d *decoder) problems(n *yaml.Node, found []hosted.Problem) {
	for _, p := range found {
		at := find(n, p.Field)
		d.errorf(at, "%s%s", nameOf(p.Field), p.Text)
	}
}

// nameOf returns the prefix of a problem's text.
func nameOf(field string) string {
	if field == "" {
		return ""
	}
	return field + ": "
}

// find returns the node of a field, or else its nearest existing parent.
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
