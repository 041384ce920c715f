package hosted

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is what tasks of one type run: a program, never a shell. Its arguments are Args, then the values from the payload that Params
// or List let through, each an argument of its own.
type Command struct {
	Queue string // of the tasks; empty: the type

	// Path of the program, absolute.
	Path string

	// Args come first, as they are.
	Args []string

	// Params are named values, from a payload such as {"name": "x"}; List are any number of values, from {"args": ["x", "y"]}. Only one of
	// them is set; without, the payload makes no arguments.
	Params []Param
	List   *List

	// Separator puts "--" in front of the values that have no flag.
	Separator bool

	// Stdin gives the program the payload as its standard input. It has none otherwise.
	Stdin bool

	// Dir is where the program runs, absolute. Default: the root directory.
	Dir string

	// Env are the variables of the program, besides PATH and those that begin with ASYNQ_. It sees none of the service's own.
	Env map[string]string

	// User that the program runs as, by name or number; the service must be root then. Default: the service's user.
	User string

	// Timeout of one run. Default: the timeout of the task alone.
	Timeout time.Duration

	// Grace is how long the program may go on after SIGTERM before it is killed. Default: 5 s.
	Grace time.Duration

	// MaxOutput is how many bytes of the output are kept as the result: the first half of what is more, and the last. Default: 64 KiB.
	MaxOutput int

	// WithStderr keeps standard error too, in the order in which it came. Otherwise only the end of it is told, when the program fails.
	WithStderr bool

	// Exit says what exit codes mean.
	Exit Exit
}

// Exit says what exit codes mean. Code 0 is success, unless it is in another list.
type Exit struct {
	Done, Retry, Archive []int

	// ArchiveOthers has all other codes archive the task. Otherwise it is tried again.
	ArchiveOthers bool
}

// CheckUser tells whether programs can run as a user on this machine.
func CheckUser(name string) error {
	_, err := lookUp(name)
	return err
}

const (
	maxMaxOutput = 8 << 20
	maxArgument  = 64 << 10 // bytes; Linux has 128 KiB for each
	maxArguments = 1000
)

// Check tells all that is wrong.
func (c *Command) Check() []Problem {
	var p problems
	if !supported {
		p.add("", "commands need Linux or another Unix: leave them out")
	}
	switch {
	case c.Path == "":
		p.add("path", "it is missing: say which program to run")
	case !filepath.IsAbs(c.Path):
		p.add("path", "%q is not absolute: write the whole path of the program, as in /usr/bin/convert", c.Path)
	case c.isShell():
		p.add("path", "a shell with -c would make commands of what tasks bring: put them into a script, and run that")
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			p.add(index("args", i), "it contains a NUL byte, which ends an argument")
		}
	}
	if strings.ContainsRune(c.Path, 0) {
		p.add("path", "it contains a NUL byte")
	}
	for i := range c.Params {
		if strings.ContainsRune(c.Params[i].Flag, 0) {
			p.add(index("params", i)+".flag", "it contains a NUL byte, which ends an argument")
		}
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		p.add("dir", "%q is not absolute: write the whole path", c.Dir)
	}
	for name, value := range c.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			p.add("env", "%q is no name of a variable", name)
		case strings.HasPrefix(name, "ASYNQ_"):
			p.add("env", "%s: names that begin with ASYNQ_ are the service's", name)
		case strings.ContainsRune(value, 0):
			p.add("env", "%s contains a NUL byte", name)
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
			p.add(at, "the name is missing: it is the key in the payload")
		} else if names[param.Name] {
			p.add(at, "there are two params named %q", param.Name)
		}
		names[param.Name] = true
		param.check(&p, at+".")
	}
	if c.List != nil {
		c.List.check(&p, "list.")
		if c.List.Max < 0 || c.List.Max > maxArguments {
			p.add("list.max", "it must be from 1 to %d", maxArguments)
		}
	}
	if c.Timeout < 0 {
		p.add("timeout", "it is less than zero")
	}
	if c.Grace < 0 {
		p.add("grace", "it is less than zero")
	}
	if c.MaxOutput < 0 || c.MaxOutput > maxMaxOutput {
		p.add("max_output", "it must be from 0 to 8MiB")
	}
	c.Exit.check(&p)
	return p
}

// shells run what follows -c.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox"}

// wrappers run the program that is among their arguments.
var wrappers = []string{
	"env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "time", "xargs", "flock", "chroot", "sudo", "doas", "su", "runuser", "setpriv",
}

// isShell reports whether the program is a shell that makes commands of its arguments, or of values from the payload: by -c, or by flags
// that come where no script is named.
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
		return false // a script, whose arguments are those that follow
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
				p.add(field, "%d is no exit code: they are from 0 to 255", code)
			} else if other, ok := where[code]; ok {
				p.add(field, "%d is in %s already", code, other)
			}
			where[code] = l.name
		}
	}
}

// index names an element of a list.
func index(field string, i int) string { return field + "." + strconv.Itoa(i) }
