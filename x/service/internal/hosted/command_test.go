//go:build unix

package hosted

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// script writes a shell script, and returns its path. The tests' commands are scripts; what the service runs of a task never is.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// printArgs prints each argument in brackets.
const printArgs = `for a in "$@"; do printf '[%s]' "$a"; done`

// anything lets every value of one line through.
var anything = Rule{Pattern: `.*`}

func one(t *testing.T, c Command) *site {
	t.Helper()
	return newSite(t, Config{Commands: map[string]Command{"cmd": c}})
}

// What a shell would take for its own arrives as it is.
func TestMetacharacters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := one(t, Command{Path: script(t, printArgs), Dir: dir, Args: []string{"first one"}, List: &List{Rule: anything, Max: 20}, Separator: true})
	info := s.run("cmd", `{"args":["; touch evil", "$(touch evil)", "`+"`touch evil`"+`", "| touch evil", "&& touch evil", "a b", "", "*", "~", "$HOME", "> evil", "'", "\"", "\\", 3.50, true]}`)
	expect(t, info, asynq.TaskStateCompleted, "")
	want := "[first one][--][; touch evil][$(touch evil)][`touch evil`][| touch evil][&& touch evil][a b][][*][~][$HOME][> evil]['][\"][\\][3.50][true]"
	if string(info.Result) != want {
		t.Errorf("got  %s\nwant %s", info.Result, want)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	s := one(t, Command{Path: script(t, "touch "+ran), List: &List{Rule: Rule{Pattern: `[a-z=/.-]+|x`, MaxLength: 10}, Max: 3}})
	for payload, want := range map[string]string{
		`{"args":["--output=/etc"]}`:              "args[0]: it has 13 bytes",
		`{"args":["a","-rf"]}`:                    `args[1]: it begins with "-"`,
		`{"args":["a\u0000b"]}`:                   "NUL",
		`{"args":["a\nb"]}`:                       "does not match",
		`{"args":["x; rm"]}`:                      "does not match",
		`{"args":["a\n"]}`:                        "does not match",
		`{"args":["a","b","c","d"]}`:              "at most 3",
		`{"args":[["a"]]}`:                        "neither a string",
		`{"args":[null]}`:                         "neither a string",
		`{"args":"a"}`:                            "no list",
		`{"args":["a"],"env":{"LD_PRELOAD":"x"}}`: `key "env"`,
		`["a"]`:                  "no JSON object",
		`{"args":["a"]} x`:       "goes on",
		"{\"args\":[\"a\xff\"]}": "UTF-8",
		`{"args":["` + strings.Repeat("a", 2<<20) + `"]}`: "the payload has",
		`{"args":[-5]}`: `begins with "-"`,
	} {
		expect(t, s.run("cmd", payload), asynq.TaskStateArchived, want)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran")
	}
	expect(t, s.run("cmd", `{"args":["a","x"]}`), asynq.TaskStateCompleted, "")
	expect(t, s.run("cmd", ``), asynq.TaskStateCompleted, "")
}

func TestParams(t *testing.T) {
	t.Parallel()
	s := one(t, Command{Path: script(t, printArgs), Separator: true, Params: []Param{
		{Name: "file", Rule: Rule{Pattern: `[a-z]+\.pdf`}, Required: true},
		{Name: "format", Flag: "--format", Rule: Rule{Allowed: []string{"a4", "a5"}}},
		{Name: "scale", Flag: "--scale=", Rule: Rule{Pattern: `-?[0-9]+`, AllowDash: true}},
	}})
	for payload, want := range map[string]string{
		`{"file":"x.pdf"}`:                            "[--][x.pdf]",
		`{"format":"a5","file":"x.pdf","scale":-3}`:   "[--format][a5][--scale=-3][--][x.pdf]",
		`{"file":"x.pdf","format":null,"scale":null}`: "[--][x.pdf]",
	} {
		info := s.run("cmd", payload)
		if expect(t, info, asynq.TaskStateCompleted, ""); string(info.Result) != want {
			t.Errorf("%s: got %s, want %s", payload, info.Result, want)
		}
	}
	for payload, want := range map[string]string{
		``:                                    "file: it is missing",
		`{"file":"x.pdf","format":"a6"}`:      "format: it is not among",
		`{"file":"x.pdf","FORMAT":"a4"}`:      "no param",
		`{"file":"../x.pdf"}`:                 "file: it does not match",
		`{"file":"x.pdf\n--exec=evil"}`:       "file: it does not match",
		`{"file":"x.pdf","scale":"1 --evil"}`: "scale: it does not match",
	} {
		expect(t, s.run("cmd", payload), asynq.TaskStateArchived, want)
	}
}

// The command sees nothing of the service's environment, and what tasks bring gets into it only encoded.
func TestEnvironment(t *testing.T) {
	t.Setenv("SERVICE_SECRET", "do not tell")
	s := one(t, Command{Path: "/usr/bin/env", Env: map[string]string{"MINE": "a b"}})
	info := s.run("cmd", "", asynq.TaskID("() { :;}; x\nLD_PRELOAD=/evil"))
	expect(t, info, asynq.TaskStateCompleted, "")
	want := "ASYNQ_ATTEMPT=1\nASYNQ_MAX_RETRY=25\nASYNQ_QUEUE=cmd\nASYNQ_TASK_ID=%28%29%20%7B%20:%3B%7D%3B%20x%0ALD_PRELOAD=%2Fevil\nASYNQ_TASK_TYPE=cmd\nMINE=a b\nPATH=/usr/local/bin:/usr/bin:/bin\n"
	if string(info.Result) != want {
		t.Errorf("got %s\nwant %s", info.Result, want)
	}
}

// A program gets no open files of the service, besides its three.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return // not Linux
	}
	s := one(t, Command{Path: "/bin/ls", Args: []string{"/proc/self/fd"}})
	if info := s.run("cmd", ""); string(info.Result) != "0\n1\n2\n3\n" { // 3 is the directory
		t.Errorf("got %q", info.Result)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Commands: map[string]Command{
		"cat":    {Path: "/bin/cat", Stdin: true},
		"none":   {Path: "/bin/cat"},
		"ignore": {Path: "/bin/echo", Args: []string{"done"}, Stdin: true},
	}})
	if info := s.run("cat", "a\x00b $(x)"); string(info.Result) != "a\x00b $(x)" {
		t.Errorf("got %q", info.Result)
	}
	if info := s.run("none", "x"); info.State != asynq.TaskStateCompleted || len(info.Result) > 0 {
		t.Errorf("got %q", info.Result)
	}
	info := s.run("ignore", strings.Repeat("x", 1<<20)) // more than the pipe takes
	if expect(t, info, asynq.TaskStateCompleted, ""); string(info.Result) != "done\n" {
		t.Errorf("got %q", info.Result)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	path := script(t, "echo out; echo oops >&2; exit $1")
	exit := func(e Exit) Command {
		return Command{Path: path, List: &List{Rule: Rule{Pattern: "[0-9]+"}}, Exit: e}
	}
	s := newSite(t, Config{Commands: map[string]Command{
		"usual":  exit(Exit{}),
		"listed": exit(Exit{Done: []int{3}, Archive: []int{0, 64}, Retry: []int{75}}),
		"strict": exit(Exit{Retry: []int{75}, ArchiveOthers: true}),
		"all":    {Path: path, List: &List{Rule: Rule{Pattern: "[0-9]+"}}, WithStderr: true},
		"signal": {Path: script(t, "kill -9 $$"), Exit: Exit{ArchiveOthers: true}},
		"none":   {Path: filepath.Join(t.TempDir(), "none")},
	}})
	const done, retry, archived = asynq.TaskStateCompleted, asynq.TaskStateRetry, asynq.TaskStateArchived
	for _, c := range []struct {
		typename, code string
		state          asynq.TaskState
		err            string
	}{
		{"usual", "0", done, ""}, {"usual", "1", retry, "run.sh: exit status 1: oops"},
		{"listed", "3", done, ""}, {"listed", "0", archived, "exit status 0"}, {"listed", "64", archived, "64"}, {"listed", "75", retry, "75"}, {"listed", "1", retry, "1"},
		{"strict", "75", retry, "75"}, {"strict", "1", archived, "1"}, {"strict", "0", done, ""},
		{"all", "0", done, ""}, {"signal", "", retry, "killed"}, {"none", "", retry, "did not start"},
	} {
		payload := `{"args":[` + c.code + `]}`
		info := s.run(c.typename, payload)
		expect(t, info, c.state, c.err)
		want := map[string]string{"all": "out\noops\n", "signal": "", "none": ""}
		if text, ok := want[c.typename]; ok && string(info.Result) != text || !ok && string(info.Result) != "out\n" {
			t.Errorf("%s %s: result %q", c.typename, c.code, info.Result)
		}
	}
}

// Output without an end is read, and bounded, until the time is over.
func TestEndlessOutput(t *testing.T) {
	t.Parallel()
	s := one(t, Command{Path: script(t, "echo begin; yes"), Timeout: 300 * time.Millisecond, MaxOutput: 1000})
	info := s.run("cmd", "")
	expect(t, info, asynq.TaskStateRetry, "not done within 300ms")
	if text := string(info.Result); !strings.HasPrefix(text, "begin\ny\n") || !strings.Contains(text, "bytes left out]") || len(text) > 1100 {
		t.Errorf("the result has %d bytes: %.100q", len(text), text)
	}
}

// gone waits until no process has a number.
func gone(t *testing.T, pid int) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-ticker.C {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		// What lost its parent may wait for somebody to ask how it ended.
		if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(state), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

// pids reads numbers that a command writes to a pipe, whose path is its argument.
type pids struct {
	path string
	from *bufio.Scanner
}

func newPids(t *testing.T) *pids {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pids")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	_ = f.SetReadDeadline(time.Now().Add(20 * time.Second))
	return &pids{path: path, from: bufio.NewScanner(f)}
}

func (p *pids) next(t *testing.T) int {
	t.Helper()
	if !p.from.Scan() {
		t.Fatal(p.from.Err())
	}
	pid, err := strconv.Atoi(p.from.Text())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A canceled task ends with its grandchildren, those that ignore SIGTERM too.
func TestCancelEndsTheGroup(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	s := one(t, Command{Grace: 100 * time.Millisecond, Args: []string{p.path}, Path: script(t, `
		trap "" TERM
		(trap "" TERM; (trap "" TERM; echo $$ >>"$1"; exec sleep 1000) & exec sleep 1000) &
		echo $! >>"$1"
		sleep 1000 & wait; wait; wait`)})
	info := s.enqueue("cmd", "")
	first, second := p.next(t), p.next(t)
	if err := s.inspector.CancelProcessing(info.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, s.ended(info), asynq.TaskStateRetry, "was stopped: ")
	gone(t, first)
	gone(t, second)
}

// A program that ends in order on SIGTERM has the time for it.
func TestTermComesFirst(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	s := one(t, Command{Grace: 20 * time.Second, Args: []string{p.path}, Path: script(t, `
		trap 'echo cleaned; exit 9' TERM
		echo $$ >>"$1"
		while :; do sleep 0.05; done`)})
	info := s.enqueue("cmd", "")
	p.next(t)
	if err := s.inspector.CancelProcessing(info.ID); err != nil {
		t.Fatal(err)
	}
	info = s.ended(info)
	if expect(t, info, asynq.TaskStateRetry, "was stopped"); string(info.Result) != "cleaned\n" {
		t.Errorf("result %q", info.Result)
	}
}

// Work that was broken off is not done, even if the program says so.
func TestStoppedIsNotDone(t *testing.T) {
	t.Parallel()
	const path, wait = "echo half; trap 'exit %d' TERM; echo $$ >>\"$1\"; ", "while :; do sleep 0.02; done"
	p := newPids(t)
	args := []string{p.path}
	said := strings.Replace(path, "%d", "0", 1) + wait
	s := newSite(t, Config{Commands: map[string]Command{
		"late":     {Args: args, Path: script(t, said), Timeout: 300 * time.Millisecond},
		"canceled": {Args: args, Path: script(t, said)},
		"listed":   {Args: args, Path: script(t, strings.Replace(path, "%d", "3", 1)+"echo why >&2; "+wait), Exit: Exit{Done: []int{3}}},
	}})
	for typename, want := range map[string]string{
		"late": "run.sh was stopped: it was not done within 300ms (exit status 0): half", "canceled": "(exit status 0): half", "listed": "(exit status 3): half  why",
	} {
		info := s.enqueue(typename, "")
		p.next(t)
		if typename != "late" {
			if err := s.inspector.CancelProcessing(info.ID); err != nil {
				t.Fatal(err)
			}
		}
		info = s.ended(info)
		if expect(t, info, asynq.TaskStateRetry, want); string(info.Result) != "half\n" || info.Retried != 1 {
			t.Errorf("%s: result %q after %d retries", typename, info.Result, info.Retried)
		}
	}
}

// What a program leaves behind ends with it, and does not keep its task waiting.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	s := one(t, Command{Args: []string{p.path}, Path: script(t, `sleep 1000 & echo $! >>"$1"; echo done`)})
	info := s.run("cmd", "")
	if expect(t, info, asynq.TaskStateCompleted, ""); string(info.Result) != "done\n" {
		t.Errorf("result %q", info.Result)
	}
	gone(t, p.next(t))
}

// Processes that go on making others end all the same.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	// It is kept small by its depth, and would go on for as long as nobody ended it.
	s := one(t, Command{Timeout: 500 * time.Millisecond, Grace: 50 * time.Millisecond, Args: []string{p.path, "0"}, Path: script(t, `
		trap "" TERM
		echo $$ >>"$1"
		[ "$2" -ge 4 ] || { "$0" "$1" $(($2+1)) & "$0" "$1" $(($2+1)) & }
		while :; do sleep 0.1 & wait; done`)})
	expect(t, s.run("cmd", ""), asynq.TaskStateRetry, "not done within")
	for range 5 {
		gone(t, p.next(t))
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Commands: map[string]Command{"x": {Path: "/bin/id", User: "nobody-at-all"}}}, quiet); err == nil {
		t.Error("an unknown user is taken")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil || os.Getuid() != 0 {
		return // there is nobody, or no way to become it
	}
	s := one(t, Command{Path: "/usr/bin/id", Args: []string{"-u"}, User: "nobody"})
	if info := s.run("cmd", ""); string(info.Result) != nobody.Uid+"\n" {
		t.Errorf("ran as %q, want %q: %s", info.Result, nobody.Uid, info.LastErr)
	}
}

func TestCommandCheck(t *testing.T) {
	t.Parallel()
	const path = "/bin/echo"
	for _, c := range []struct {
		c     Command
		field string
	}{
		{Command{}, "path"},
		{Command{Path: "echo"}, "path"},
		{Command{Path: "./echo"}, "path"},
		{Command{Path: "/bin/sh", Args: []string{"-c", "echo"}}, "path"},
		{Command{Path: "/bin/bash", Args: []string{"-ec", "echo"}}, "path"},
		{Command{Path: path, Args: []string{"a\x00"}}, "args.0"},
		{Command{Path: path, Dir: "tmp"}, "dir"},
		{Command{Path: path, Env: map[string]string{"A=B": ""}}, "env"},
		{Command{Path: path, Env: map[string]string{"ASYNQ_TASK_ID": ""}}, "env"},
		{Command{Path: path, Env: map[string]string{"A": "\x00"}}, "env"},
		{Command{Path: path, List: &List{}}, "list.pattern"},
		{Command{Path: path, List: &List{Rule: Rule{Pattern: "("}}}, "list.pattern"},
		{Command{Path: path, List: &List{Rule: Rule{Pattern: "a)|(.*"}}}, "list.pattern"},
		{Command{Path: path, List: &List{Rule: anything, Max: -1}}, "list.max"},
		{Command{Path: path, Params: []Param{{Rule: anything}}}, "params.0"},
		{Command{Path: path, Params: []Param{{Name: "a", Rule: anything}, {Name: "a", Rule: anything}}}, "params.1"},
		{Command{Path: path, Params: []Param{{Name: "a", Rule: Rule{Pattern: ".", MaxLength: 1 << 20}}}}, "params.0.max_length"},
		{Command{Path: path, Params: []Param{{Name: "a", Rule: anything}}, List: &List{Rule: anything}}, "list"},
		{Command{Path: path, Timeout: -1}, "timeout"},
		{Command{Path: path, Grace: -1}, "grace"},
		{Command{Path: path, MaxOutput: -1}, "max_output"},
		{Command{Path: path, Exit: Exit{Done: []int{256}}}, "exit.done.0"},
		{Command{Path: path, Exit: Exit{Done: []int{1}, Archive: []int{2, 1}}}, "exit.archive.1"},
	} {
		if p := c.c.Check(); len(p) != 1 || p[0].Field != c.field {
			t.Errorf("%+v: got %v, want one of %s", c.c, p, c.field)
		}
	}
	both := Config{Commands: map[string]Command{"x": {Path: path}}, Endpoints: map[string]Endpoint{"x": {URL: "https://x"}}}
	if _, err := New(both, quiet); err == nil {
		t.Error("a type may be both")
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	s := one(t, Command{Path: "/bin/echo"})
	s.queues["other"] = "cmd"
	expect(t, s.run("other", ""), asynq.TaskStateRetry, `no tasks of type "other"`)
}

// No program starts for a task that was canceled before.
func TestCanceledBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(asynq.ErrTaskCanceled)
	cmd := exec.Command("/bin/echo")
	if _, err := runGroup(ctx, cmd, nil, time.Second); !errors.Is(err, asynq.ErrTaskCanceled) || cmd.Process != nil {
		t.Errorf("got %v", err)
	}
}
