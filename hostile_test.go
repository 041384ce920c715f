package asynq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
)

// hostileCalls are calls of every exported function and method with what no sensible program passes, by the name of what is called.
// Those of a group share a Redis and come in the order of their names; each leaves Redis as it was.
var hostileCalls = map[string]map[string]func(h *hostile){
	"client":    hostileClient,
	"option":    hostileOption,
	"task":      hostileTask,
	"inspector": hostileInspector,
	"lists":     hostileLists,
	"bulk":      hostileBulk,
	"records":   hostileRecords,
	"mux":       hostileMux,
	"server":    hostileServer,
	"taker":     hostileTaker,
	"scheduler": hostileScheduler,
	"redis":     hostileRedis,
	"logger":    hostileLogger,
}

// Names that are refused, or that nothing can have.
var (
	blankNames = []string{"", " ", "\t\r\n\u2028"}
	notUTF8    = "not\xffUTF-8\xc3("
)

// unusualNames can be those of queues, types, groups and tasks.
var unusualNames = []string{
	"clo}sing", "op{ening", "{}", "line\nbreak\r\n", "nul\x00byte", "quo\"tes'`", "*?[a-z]\\", " blanks ", "a:b:c", "t:x", "%s%d%n", "-inf", "ünï☃𝄞",
	"default}:pending", "$5\r\nFLUSH\r\n", strings.Repeat("long", 2500),
}

// Names that are longer than anybody's. The keys of a queue are many, and each has the whole name.
var (
	longName = strings.Repeat("n", 1<<15)
	hugeName = strings.Repeat("n", 1<<20)
)

// Times and lengths of time that overflow where nobody takes care.
var (
	endOfTime   = time.Unix(1<<63-62135596801, 999_999_999) // in the year 292277022399, the last one that a time.Time can hold
	yearZero    = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	longest     = time.Duration(math.MaxInt64)
	mostNegtive = time.Duration(math.MinInt64)
)

// noContext is what a program passes that has forgotten to make a context.
var noContext context.Context

// hostile is one call's place.
type hostile struct {
	*site
	inspect *asynq.Inspector
	before  map[string]string
}

func TestHostileInput(t *testing.T) {
	t.Parallel()
	for group, calls := range hostileCalls {
		t.Run(group, func(t *testing.T) {
			everywhere(t, func(s *site) {
				s.enqueue("pending")
				s.enqueue("later", asynq.ProcessIn(time.Hour))
				s.enqueue("grouped", asynq.Group("g"))
				for _, name := range slices.Sorted(maps.Keys(calls)) {
					h := &hostile{site: s, inspect: s.inspector(), before: s.Snapshot(s.t)}
					calls[name](h)
					h.unchanged(name)
				}
			})
		})
	}
}

// unchanged fails the test if Redis is not as it was.
func (h *hostile) unchanged(after string) {
	h.t.Helper()
	if diff := cmp.Diff(h.before, h.Snapshot(h.t)); diff != "" {
		h.t.Errorf("%s has changed Redis (-before +after):\n%.2000s", after, diff)
	}
}

// refused fails the test unless the error says what is wrong, is want where that is not nil, and has the words.
func (h *hostile) refused(err, want error, words ...string) {
	h.t.Helper()
	switch {
	case err == nil:
		h.t.Errorf("not refused (want %v %q)", want, words)
	case want != nil && !errors.Is(err, want):
		h.t.Errorf("got the error %.300q, want %v", err, want)
	case !strings.HasPrefix(err.Error(), "asynq: ") && want == nil:
		h.t.Errorf("the error %.300q does not say that it is ours", err)
	}
	for _, word := range words {
		if err != nil && !strings.Contains(err.Error(), word) {
			h.t.Errorf("the error %.300q has no %q", err, word)
		}
	}
}

// taken fails the test if there is an error.
func (h *hostile) taken(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Errorf("got the error %.300q", err)
	}
}

// panics fails the test unless f panics with a text that has the words: the panics that are documented.
func (h *hostile) panics(words string, f func()) {
	h.t.Helper()
	defer func() {
		h.t.Helper()
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "asynq: ") || !strings.Contains(text, words) {
			h.t.Errorf("panicked with %.300q, want one with %q", text, words)
		}
	}()
	f()
}

// want fails the test unless something is as it must be.
func (h *hostile) want(ok bool, format string, args ...any) {
	h.t.Helper()
	if !ok {
		h.t.Errorf("not so: "+format, args...)
	}
}

// newClient returns a client that knows of no queue yet: one that knows a queue does not list it again at once after it was deleted.
func (h *hostile) newClient() *asynq.Client { return asynq.NewClientFromRedisClient(h.redis) }

// accepted enqueues a task, deletes it, and returns what was told of it.
func (h *hostile) accepted(task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	h.t.Helper()
	info, err := h.newClient().Enqueue(task, opts...)
	if err != nil {
		h.t.Errorf("got the error %.300q", err)
		return &asynq.TaskInfo{}
	}
	found, err := h.inspect.GetTaskInfo(info.Queue, info.ID)
	if err != nil {
		h.t.Errorf("got the error %.300q", err)
		return info
	}
	h.taken(h.inspect.DeleteTask(info.Queue, info.ID))
	if info.Queue != "default" {
		h.taken(h.inspect.DeleteQueue(info.Queue, true))
	}
	found.NextProcessAt = info.NextProcessAt // now, where it is pending
	h.want(bytes.Equal(info.Payload, found.Payload), "the payload of %d bytes comes back as %d", len(info.Payload), len(found.Payload))
	found.Payload = info.Payload // compared quickly
	if diff := cmp.Diff(info, found, cmp.Comparer(bytes.Equal)); diff != "" {
		h.t.Errorf("the inspector finds another task (-enqueued +found):\n%.2000s", diff)
	}
	return info
}

// TestHostileCallsAreComplete holds the names of the calls against what the package exports.
func TestHostileCallsAreComplete(t *testing.T) {
	t.Parallel()
	called := make(map[string]bool)
	for _, calls := range hostileCalls {
		for name := range calls {
			if called[name] {
				t.Errorf("%s is called in two groups", name)
			}
			called[name] = true
		}
	}
	exported := exportedFuncs(t)
	for _, name := range exported {
		if !called[name] {
			t.Errorf("%s has no hostile call: add one to the table of its group", name)
		}
		delete(called, name)
	}
	for name := range called {
		t.Errorf("%s is called, but is not exported", name)
	}
	if len(exported) < 130 {
		t.Errorf("found %d exported functions and methods only", len(exported))
	}
}

// exportedFuncs lists the exported functions of the package as Name, and the methods of its exported types as Type.Name.
func exportedFuncs(t *testing.T) (names []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if f.Recv == nil {
				names = append(names, f.Name.Name)
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if ident, ok := of.(*ast.Ident); ok && ident.IsExported() {
				names = append(names, ident.Name+"."+f.Name.Name)
			}
		}
	}
	return names
}
