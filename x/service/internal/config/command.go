package config

import (
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

func (d *decoder) cmd(n *yaml.Node, to *hosted.Config) {
	to.Commands = make(map[string]hosted.Command)
	d.mapping(n, fields{"commands": func(n *yaml.Node) {
		d.each(n, func(typename string, at, n *yaml.Node) {
			d.typename(at)
			to.Commands[typename] = d.command(n)
		})
	}})
}

func (d *decoder) command(n *yaml.Node) hosted.Command {
	var c hosted.Command
	var kept int64
	output, input, others := "stdout", "none", "retry"
	nodes := d.mapping(n, fields{
		"queue": &c.Queue, "path": &c.Path, "args": &c.Args, "separator": &c.Separator, "dir": &c.Dir, "user": &c.User,
		"timeout": &c.Timeout, "grace": bound{&c.Grace}, "max_output": bound{size{&kept}}, "output": &output, "stdin": &input,
		"env": func(n *yaml.Node) { c.Env = d.pairs(n) },
		"params": func(n *yaml.Node) {
			d.list(n, func(_ int, n *yaml.Node) {
				var p hosted.Param
				d.mapping(n, withRule(&p.Rule, fields{"name": &p.Name, "flag": &p.Flag, "required": &p.Required}))
				c.Params = append(c.Params, p)
			})
		},
		"list": func(n *yaml.Node) {
			c.List = new(hosted.List)
			d.mapping(n, withRule(&c.List.Rule, fields{"max": bound{&c.List.Max}}))
		},
		"exit": func(n *yaml.Node) {
			d.mapping(n, fields{"done": &c.Exit.Done, "retry": &c.Exit.Retry, "archive": &c.Exit.Archive, "others": &others})
		},
	})
	c.MaxOutput = int(min(kept, 1<<30))
	for _, choice := range []struct {
		key, value string
		to         *bool
		off, on    string
	}{
		{"output", output, &c.WithStderr, "stdout", "all"},
		{"stdin", input, &c.Stdin, "none", "payload"},
		{"exit.others", others, &c.Exit.ArchiveOthers, "retry", "archive"},
	} {
		switch choice.value {
		case choice.off:
		case choice.on:
			*choice.to = true
		default:
			d.errorf(find(n, choice.key), "%.50q is not supported: use %s or %s", choice.value, choice.off, choice.on)
		}
	}
	d.problems(n, c.Check())
	if c.User != "" {
		if err := hosted.CheckUser(c.User); err != nil {
			d.errorf(nodes["user"], "%v", err)
		}
	}
	if at := nodes["path"]; at != nil && filepath.IsAbs(c.Path) {
		d.program(at, c.Path)
	}
	return c
}

func withRule(r *hosted.Rule, f fields) fields {
	f["pattern"], f["allowed"], f["max_length"], f["allow_dash"] = &r.Pattern, &r.Allowed, bound{&r.MaxLength}, &r.AllowDash
	return f
}

// program warns of a program that cannot run or that other users can modify. It does not report
// errors: the configuration may be checked on another machine than the service's.
func (d *decoder) program(n *yaml.Node, name string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		d.warnf(n, "program not found on this machine: %v", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		d.warnf(n, "%s is not executable: run chmod +x", name)
	case info.Mode().Perm()&0o002 != 0:
		d.warnf(n, "%s is writable by every user: run chmod o-w", name)
	}
}
