package filter

import (
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// truth is a three-valued result: matches, does not match, or unknown.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func known(ok bool) truth {
	if ok {
		return yes
	}
	return no
}

// facts are the known properties of a task: all, or only its queue and state.
type facts struct {
	task  *asynq.TaskInfo // nil: unknown
	queue string
	state asynq.TaskState
	row   map[string]any // not nil: a row instead of a task
}

// node is a part of a filter.
type node interface {
	eval(*facts) truth
	text(level int) string // in the context of an operator with this precedence
}

// The precedences of operators.
const (
	levelOr = iota + 1
	levelAnd
	levelNot
)

func wrap(s string, wrapped bool) string {
	if wrapped {
		return "(" + s + ")"
	}
	return s
}

type and struct{ parts []node }

// all returns the conjunction of parts, or nil if there are none.
func all(parts []node) node {
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return &and{parts}
}

func (n *and) eval(f *facts) truth {
	v := yes
	for _, part := range n.parts {
		if v = min(v, part.eval(f)); v == no {
			break
		}
	}
	return v
}

func (n *and) text(level int) string { return wrap(join(n.parts, " ", levelAnd), level > levelAnd) }

type or struct{ parts []node }

func (n *or) eval(f *facts) truth {
	v := no
	for _, part := range n.parts {
		if v = max(v, part.eval(f)); v == yes {
			break
		}
	}
	return v
}

func (n *or) text(level int) string { return wrap(join(n.parts, " OR ", levelOr), level > levelOr) }

func join(parts []node, sep string, level int) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.text(level)
	}
	return strings.Join(texts, sep)
}

type not struct{ of node }

func (n *not) eval(f *facts) truth { return yes - n.of.eval(f) }
func (n *not) text(int) string     { return "-" + n.of.text(levelNot) }

// age is an age bound. It is evaluated by asynq.
type age struct {
	at      int // position in the text
	atLeast bool
	bound   time.Duration
}

func (*age) eval(*facts) truth { return unknown }

func (a *age) text(int) string {
	if a.atLeast {
		return "age>=" + a.bound.String()
	}
	return "age<" + a.bound.String()
}
