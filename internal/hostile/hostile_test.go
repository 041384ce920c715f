package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// hostileCalls calls every exported function and method with hostile arguments. The keys are a
// group and the name of the function. The calls of a group share a Redis and run in the order of
// their names. Each leaves Redis unchanged.
var hostileCalls = map[string]map[string]func(h *hostile){
	"client":    hostileClient,
	"waits":     hostileWaits,
	"option":    hostileOption,
	"task":      hostileTask,
	"inspector": hostileInspector,
	"lists":     hostileLists,
	"bulk":      hostileBulk,
	"records":   hostileRecords,
	"stats":     hostileStats,
	"partition": hostilePartitions,
	"mux":       hostileMux,
	"server":    hostileServer,
	"receiver":  hostileReceiver,
	"scheduler": hostileScheduler,
	"redis":     hostileRedis,
	"logger":    hostileLogger,
}

// Names that are rejected everywhere.
var (
	blankNames = []string{"", " ", "\t\r\n\u2028"}
	notUTF8    = "not\xffUTF-8\xc3("
)

// unusualNames are valid names of queues, types, groups and tasks.
var unusualNames = []string{
	"clo}sing", "op{ening", "{}", "line\nbreak\r\n", "nul\x00byte", "quo\"tes'`", "*?[a-z]\\", " blanks ", "a:b:c", "t:x", "%s%d%n", "-inf", "ünï☃𝄞",
	"default}:pending", "$5\r\nFLUSH\r\n", strings.Repeat("long", 2500),
}

// Very long names. A queue has many keys, each of which contains its name, so longName is shorter.
var (
	longName = strings.Repeat("n", 1<<15)
	hugeName = strings.Repeat("n", 1<<20)
)

// Times and durations that cause overflows in careless code.
var (
	endOfTime    = time.Unix(1<<63-62135596801, 999_999_999) // the largest time.Time, in the year 292277022399
	yearZero     = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	longest      = time.Duration(math.MaxInt64)
	mostNegative = time.Duration(math.MinInt64)
)

// noContext is a nil context.
var noContext context.Context

// hostile is the environment of one call.
type hostile struct {
	*testenv.Env
	inspect *asynq.Inspector
	before  map[string]string
}

func TestHostileInput(t *testing.T) {
	t.Parallel()
	for group, calls := range hostileCalls {
		t.Run(group, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				env.Enqueue("pending")
				env.Enqueue("later", asynq.ProcessIn(time.Hour))
				env.Enqueue("grouped", asynq.Group("g"))
				for _, name := range slices.Sorted(maps.Keys(calls)) {
					h := &hostile{Env: env, inspect: env.Inspector(), before: env.Snapshot(env.T)}
					calls[name](h)
					h.wantUnchanged(name)
				}
			})
		})
	}
}

// wantUnchanged requires that Redis has the same content as before the call.
func (h *hostile) wantUnchanged(after string) {
	h.T.Helper()
	if diff := cmp.Diff(h.before, h.Snapshot(h.T)); diff != "" {
		h.T.Errorf("%s changed Redis (-before +after):\n%.2000s", after, diff)
	}
}

// wantErr requires an error that wraps want, unless that is nil, and contains the words.
func (h *hostile) wantErr(err, want error, words ...string) {
	h.T.Helper()
	switch {
	case err == nil:
		h.T.Errorf("no error, want %v %q", want, words)
	case want != nil && !errors.Is(err, want):
		h.T.Errorf("error %.300q, want %v", err, want)
	case !strings.HasPrefix(err.Error(), "asynq: ") && want == nil:
		h.T.Errorf("error %.300q does not have the prefix of the package", err)
	}
	for _, word := range words {
		if err != nil && !strings.Contains(err.Error(), word) {
			h.T.Errorf("error %.300q does not contain %q", err, word)
		}
	}
}

// noErr requires that err is nil.
func (h *hostile) noErr(err error) {
	h.T.Helper()
	if err != nil {
		h.T.Errorf("unexpected error %.300q", err)
	}
}

// wantPanic requires that f panics with a text of this package that contains the words.
func (h *hostile) wantPanic(words string, f func()) {
	h.T.Helper()
	defer func() {
		h.T.Helper()
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "asynq: ") || !strings.Contains(text, words) {
			h.T.Errorf("panic %.300q, want one with %q", text, words)
		}
	}()
	f()
}

// check reports the message as an error of the test unless ok.
func (h *hostile) check(ok bool, format string, args ...any) {
	h.T.Helper()
	if !ok {
		h.T.Errorf(format, args...)
	}
}

// newClient returns a client that has not registered any queue yet. A client that has registered a
// queue does not list it again at once after its deletion.
func (h *hostile) newClient() *asynq.Client { return asynq.NewClientFromRedisClient(h.RDB) }

// wantAccepted enqueues a task, compares it with what the Inspector finds, and deletes it.
func (h *hostile) wantAccepted(task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	h.T.Helper()
	info, err := h.newClient().Enqueue(task, opts...)
	if err != nil {
		h.T.Errorf("unexpected error %.300q", err)
		return &asynq.TaskInfo{}
	}
	found, err := h.inspect.GetTaskInfo(info.Queue, info.ID)
	if err != nil {
		h.T.Errorf("unexpected error %.300q", err)
		return info
	}
	h.noErr(h.inspect.DeleteTask(info.Queue, info.ID))
	if info.Queue != "default" {
		h.noErr(h.inspect.DeleteQueue(info.Queue, true))
	}
	found.NextProcessAt = info.NextProcessAt // now, if it is pending
	found.Age = info.Age                     // until now
	h.check(bytes.Equal(info.Payload, found.Payload), "the payload has %d bytes, found with %d", len(info.Payload), len(found.Payload))
	found.Payload = info.Payload // makes cmp.Diff fast
	if diff := cmp.Diff(info, found, cmp.Comparer(bytes.Equal)); diff != "" {
		h.T.Errorf("the Inspector finds a different task (-enqueued +found):\n%.2000s", diff)
	}
	return info
}

// TestHostileCallsAreComplete requires that hostileCalls contains all exported functions.
func TestHostileCallsAreComplete(t *testing.T) {
	t.Parallel()
	called := make(map[string]bool)
	for _, calls := range hostileCalls {
		for name := range calls {
			if called[name] {
				t.Errorf("%s is in two groups", name)
			}
			called[name] = true
		}
	}
	exported := exportedFuncs(t)
	for _, name := range exported {
		if !called[name] {
			t.Errorf("%s has no hostile call: add one to the map of its group", name)
		}
		delete(called, name)
	}
	for name := range called {
		t.Errorf("%s is not exported", name)
	}
	if len(exported) < 130 {
		t.Errorf("found only %d exported functions and methods", len(exported))
	}
}

// exportedFuncs returns the exported functions of the package as Name and the methods of its
// exported types as Type.Name.
func exportedFuncs(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../*.go")
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
