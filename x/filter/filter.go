// Package filter is the language in which people say which tasks they mean, on the command line and in the web UI:
//
//	type:email:* error:"timed out" payload:user_id=42 -state:archived age>10m retried>=3
//
// The terms, their fields and what they compare are described in docs/FILTER.md. A filter is compiled once and may be used by many
// goroutines. Its TaskFilter is for the methods of asynq.Inspector that take one; a Scan searches through many queues and states. Rows
// filter what is not a task by fields of its own.
package filter

import (
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Filter is a compiled filter. The zero value and nil admit all tasks.
type Filter struct {
	root node // nil admits all; holds no bounds of age
	ages []*age

	older, younger time.Duration // as asynq.TaskFilter has them
}

// Parse compiles a filter. An empty text admits all tasks. The error is a *SyntaxError.
func Parse(text string) (*Filter, error) {
	p := &parser{text: text, compare: newTerm}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	f.root = f.takeAges(root)
	if bad := findAge(f.root); bad != nil {
		return nil, p.fail(bad.at, "an age cannot be inside OR or NOT: put it beside the other terms, or use two filters")
	}
	return f, nil
}

// MustParse is Parse of a text that is known to be right. It panics if it is not.
func MustParse(text string) *Filter {
	f, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

// takeAges takes the bounds of age out of the terms that must all hold. They are for asynq.TaskFilter: only Redis knows the age.
func (f *Filter) takeAges(n node) node {
	switch n := n.(type) {
	case *age:
		f.addAge(n)
		return nil
	case *not:
		if a, ok := n.of.(*age); ok {
			f.addAge(&age{at: a.at, atLeast: !a.atLeast, bound: a.bound})
			return nil
		}
	case *and:
		var rest []node
		for _, part := range n.parts {
			if part = f.takeAges(part); part != nil {
				rest = append(rest, part)
			}
		}
		return all(rest)
	}
	return n
}

func (f *Filter) addAge(a *age) {
	f.ages = append(f.ages, a)
	bound := a.bound
	if bound == 0 {
		bound = 1 // zero is no bound
	}
	switch {
	case a.atLeast && (f.older == 0 || bound > f.older):
		f.older = bound
	case !a.atLeast && (f.younger == 0 || bound < f.younger):
		f.younger = bound
	}
}

// findAge returns a bound of age that is left, nil if there is none.
func findAge(n node) *age {
	switch n := n.(type) {
	case *age:
		return n
	case *not:
		return findAge(n.of)
	case *and:
		return firstAge(n.parts)
	case *or:
		return firstAge(n.parts)
	}
	return nil
}

func firstAge(parts []node) *age {
	for _, part := range parts {
		if a := findAge(part); a != nil {
			return a
		}
	}
	return nil
}

// TaskFilter is the filter as asynq.Inspector takes it.
func (f *Filter) TaskFilter() asynq.TaskFilter {
	if f == nil {
		return asynq.TaskFilter{}
	}
	t := asynq.TaskFilter{OlderThan: f.older, YoungerThan: f.younger}
	if f.root != nil {
		t.Match = f.Match
	}
	return t
}

// Match reports whether the filter admits a task, as far as a TaskInfo tells: all but the age, which TaskFilter asks Redis for.
func (f *Filter) Match(t *asynq.TaskInfo) bool {
	return f == nil || f.root == nil || f.root.eval(&facts{task: t}) == yes
}

// MayMatch reports whether the filter may admit a task of this queue and state: where it does not, there is no need to look. An
// empty queue and a state of 0 stand for any.
func (f *Filter) MayMatch(queue string, state asynq.TaskState) bool {
	return f == nil || f.root == nil || f.root.eval(&facts{queue: queue, state: state}) != no
}

// ByAge reports whether the filter asks for an age, so that Match alone does not tell all.
func (f *Filter) ByAge() bool { return f != nil && len(f.ages) > 0 }

// Empty reports whether the filter admits all tasks.
func (f *Filter) Empty() bool { return f == nil || f.root == nil && len(f.ages) == 0 }

// String is the filter in its shortest regular form. Parse of it comes to the same filter.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	var parts []string
	for _, a := range f.ages {
		parts = append(parts, a.text(0))
	}
	if f.root != nil {
		level := 0
		if len(parts) > 0 {
			level = levelAnd
		}
		parts = append(parts, f.root.text(level))
	}
	return strings.Join(parts, " ")
}
