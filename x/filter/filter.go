// Package filter implements the filter language of the CLI and the web UI, which selects tasks:
//
//	type:email:* error:"timed out" payload:user_id=42 -state:archived age>10m retried>=3
//
// docs/FILTER.md describes the terms, their fields and their comparisons. A Filter is compiled once
// and is safe for concurrent use. TaskFilter converts it for the methods of asynq.Inspector that
// take a filter; a Scan searches several queues and states. Rows filters lists of anything else by
// their own fields.
package filter

import (
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Filter is a compiled filter. The zero value and nil match all tasks.
type Filter struct {
	root node // nil matches all tasks; has no age bounds
	ages []*age

	older, younger time.Duration // as in asynq.TaskFilter
}

// Parse compiles a filter. An empty text matches all tasks. The error is a *SyntaxError.
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

// MustParse is like Parse, but panics if the text is invalid.
func MustParse(text string) *Filter {
	f, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

// takeAges removes the age bounds from the terms that must all match. They become part of the
// asynq.TaskFilter, because only Redis knows the age.
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
		bound = 1 // zero means no bound
	}
	switch {
	case a.atLeast && (f.older == 0 || bound > f.older):
		f.older = bound
	case !a.atLeast && (f.younger == 0 || bound < f.younger):
		f.younger = bound
	}
}

// findAge returns an age bound that takeAges left, or nil.
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

// TaskFilter returns the filter for the methods of asynq.Inspector.
func (f *Filter) TaskFilter() asynq.TaskFilter {
	if f == nil {
		return asynq.TaskFilter{}
	}
	t := asynq.TaskFilter{MinAge: f.older, MaxAge: f.younger}
	if f.root != nil {
		t.Match = f.Match
	}
	return t
}

// Match reports whether the filter matches a task, ignoring its age bounds. TaskFilter includes
// them.
func (f *Filter) Match(t *asynq.TaskInfo) bool {
	return f == nil || f.root == nil || f.root.eval(&facts{task: t}) == yes
}

// MayMatch reports whether the filter may match tasks of this queue and state. If not, they do not
// have to be scanned. An empty queue means any queue, and a state of 0 any state.
func (f *Filter) MayMatch(queue string, state asynq.TaskState) bool {
	return f == nil || f.root == nil || f.root.eval(&facts{queue: queue, state: state}) != no
}

// ByAge reports whether the filter has an age bound, which Match ignores.
func (f *Filter) ByAge() bool { return f != nil && len(f.ages) > 0 }

// Empty reports whether the filter matches all tasks.
func (f *Filter) Empty() bool { return f == nil || f.root == nil && len(f.ages) == 0 }

// String returns the filter in its shortest normal form, which Parse compiles to the same filter.
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
