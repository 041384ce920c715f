package hosted

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command configures the program that runs tasks of one type, without a shell. Its arguments are
// Args followed by the values from the payload that Params or List permit, each a separate
// argument.
type Command struct {
	Queue string // queue of the tasks; the type if empty

	// Path is the absolute path of the program.
	Path string

	// Args are the fixed first arguments.
	Args []string

	// Params are named values, from a payload such as {"name": "x"}. List permits positional
	// values, from {"args": ["x", "y"]}. At most one of them may be set. If neither is, the payload
	// is not parsed for arguments.
	Params []Param
	List   *List

	// Separator inserts "--" before the values without a flag.
	Separator bool

	// Stdin passes the payload as standard input. Otherwise standard input is empty.
	Stdin bool

	// Dir is the working directory, absolute. The default is the root directory.
	Dir string

	// Env adds environment variables to PATH and those that begin with ASYNQ_. The environment of
	// the service is not inherited.
	Env map[string]string

	// User is the name or ID of the user that the program runs as. It requires that the service
	// runs as root. The default is the user of the service.
	User string

	// Timeout of one run. By default only the timeout of the task applies.
	Timeout time.Duration

	// Grace is the time between SIGTERM and SIGKILL when the program is stopped. The default is 5
	// seconds.
	Grace time.Duration

	// MaxOutput is the size of the stored result in bytes. Longer output keeps its first and last
	// half of that. The default is 64 KiB.
	MaxOutput int

	// WithStderr includes standard error in the result, interleaved with standard output. Otherwise
	// only its end is reported, if the program fails.
	WithStderr bool

	// Exit maps exit codes to outcomes.
	Exit Exit
}

// Exit maps exit codes to outcomes. Code 0 means success unless another list contains it.
type Exit struct {
	Done, Retry, Archive []int

	// ArchiveOthers archives tasks with other codes. Otherwise they are retried.
	ArchiveOthers bool
}

// CheckUser returns an error if programs cannot run as a user on this machine.
func CheckUser(name string) error {
	_, err := lookupUser(name)
	return err
}

const (
	maxMaxOutput = 8 << 20
	maxArgument  = 64 << 10 // bytes; Linux permits 128 KiB
	maxArguments = 1000
)

// Check returns all problems of the configuration.
func (c *Command) Check() []Problem {
	var p problems
	if !supported {
		p.add("", "commands require Linux or another Unix: remove them")
	}
	switch {
	case c.Path == "":
		p.add("path", "the path is missing: set the program to run")
	case !filepath.IsAbs(c.Path):
		p.add("path", "%q is not absolute: use an absolute path such as /usr/bin/convert", c.Path)
	case c.isShell():
		p.add("path", "a shell with -c would execute data from tasks: put the commands into a script and run that")
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			p.add(index("args", i), "must not contain NUL bytes")
		}
	}
	if strings.ContainsRune(c.Path, 0) {
		p.add("path", "must not contain NUL bytes")
	}
	for i := range c.Params {
		if strings.ContainsRune(c.Params[i].Flag, 0) {
			p.add(index("params", i)+".flag", "must not contain NUL bytes")
		}
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		p.add("dir", "%q is not absolute: use an absolute path", c.Dir)
	}
	for name, value := range c.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			p.add("env", "%q is not a valid variable name", name)
		case strings.HasPrefix(name, "ASYNQ_"):
			p.add("env", "%s: names that begin with ASYNQ_ are reserved", name)
		case strings.ContainsRune(value, 0):
			p.add("env", "%s must not contain NUL bytes", name)
		}
	}
	if len(c.Params) > 0 && c.List != nil {
		p.add("list", "there are params as well: use one of them")
	}
	names := make(map[string]bool)
	for i := range c.Params {
		param := &c.Params[i]
		at := index("params", i)
		if param.Name == "" {
			p.add(at, "the name is missing: set it to the key in the payload")
		} else if names[param.Name] {
			p.add(at, "duplicate param %q", param.Name)
		}
		names[param.Name] = true
		param.check(&p, at+".")
	}
	if c.List != nil {
		c.List.check(&p, "list.")
		if c.List.Max < 0 || c.List.Max > maxArguments {
			p.add("list.max", "must be from 1 to %d", maxArguments)
		}
	}
	if c.Timeout < 0 {
		p.add("timeout", "must not be negative")
	}
	if c.Grace < 0 {
		p.add("grace", "must not be negative")
	}
	if c.MaxOutput < 0 || c.MaxOutput > maxMaxOutput {
		p.add("max_output", "must be from 0 to 8MiB")
	}
	c.Exit.check(&p)
	return p
}

// shells are programs that execute the argument after -c.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox"}

// wrappers are programs that run another program, given in their arguments.
var wrappers = []string{
	"env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "time", "xargs", "flock", "chroot", "sudo", "doas", "su", "runuser", "setpriv",
}

// isShell reports whether the program is a shell that executes its arguments or values from the
// payload: with -c, or with flags and no script.
func (c *Command) isShell() bool {
	words := []string{path.Base(c.Path)}
	if slices.Contains(wrappers, words[0]) || slices.Contains(shells, words[0]) {
		words = append(words, c.Args...)
	}
	shell := -1
	for i, word := range words {
		if slices.Contains(shells, path.Base(word)) {
			shell = i
		}
	}
	if shell < 0 {
		return false
	}
	rest := words[shell+1:]
	if slices.ContainsFunc(rest, isCommandFlag) {
		return true
	}
	if slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
		return false // a script and its arguments
	}
	for i := range c.Params {
		if isCommandFlag(c.Params[i].Flag) || c.Params[i].AllowDash && !c.Separator {
			return true
		}
	}
	return c.List != nil && c.List.AllowDash && !c.Separator
}

func isCommandFlag(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "c")
}

func (e *Exit) check(p *problems) {
	where := make(map[int]string)
	for _, l := range []struct {
		name  string
		codes []int
	}{{"done", e.Done}, {"retry", e.Retry}, {"archive", e.Archive}} {
		for i, code := range l.codes {
			field := index("exit."+l.name, i)
			if code < 0 || code > 255 {
				p.add(field, "%d is not an exit code: use 0 to 255", code)
			} else if other, ok := where[code]; ok {
				p.add(field, "%d is already in %s", code, other)
			}
			where[code] = l.name
		}
	}
}

// index returns the field of a list element.
func index(field string, i int) string { return field + "." + strconv.Itoa(i) }
