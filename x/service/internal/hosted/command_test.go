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

// script writes a shell script and returns its path. Tests run scripts as commands; the service
// never runs data from tasks in a shell.
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

// anything permits every value without line breaks.
var anything = Rule{Pattern: `.*`}

func one(t *testing.T, c Command) *env {
	t.Helper()
	return newEnv(t, Config{Commands: map[string]Command{"cmd": c}})
}

// Shell metacharacters are passed unchanged.
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
		t.Errorf("files created: %v", left)
	}
}

func TestListRejectsInvalidValues(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	s := one(t, Command{Path: script(t, "touch "+ran), List: &List{Rule: Rule{Pattern: `[a-z=/.-]+|x`, MaxLength: 10}, Max: 3}})
	for payload, want := range map[string]string{
		`{"args":["--output=/etc"]}`:              "args[0]: 13 bytes exceed",
		`{"args":["a","-rf"]}`:                    `args[1]: begins with "-"`,
		`{"args":["a\u0000b"]}`:                   "NUL",
		`{"args":["a\nb"]}`:                       "does not match",
		`{"args":["x; rm"]}`:                      "does not match",
		`{"args":["a\n"]}`:                        "does not match",
		`{"args":["a","b","c","d"]}`:              "limit of 3",
		`{"args":[["a"]]}`:                        "must be a string",
		`{"args":[null]}`:                         "must be a string",
		`{"args":"a"}`:                            "must be an array",
		`{"args":["a"],"env":{"LD_PRELOAD":"x"}}`: `key "env"`,
		`["a"]`:                  "not a JSON object",
		`{"args":["a"]} x`:       "data after",
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
		``:                                    "file: missing",
		`{"file":"x.pdf","format":"a6"}`:      "format: not an allowed value",
		`{"file":"x.pdf","FORMAT":"a4"}`:      `unknown key "FORMAT"`,
		`{"file":"../x.pdf"}`:                 "file: does not match",
		`{"file":"x.pdf\n--exec=evil"}`:       "file: does not match",
		`{"file":"x.pdf","scale":"1 --evil"}`: "scale: does not match",
	} {
		expect(t, s.run("cmd", payload), asynq.TaskStateArchived, want)
	}
}

// The command inherits no variables of the service, and values from tasks are escaped.
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

// A program inherits no open files of the service except the standard three.
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
	s := newEnv(t, Config{Commands: map[string]Command{
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
	info := s.run("ignore", strings.Repeat("x", 1<<20)) // exceeds the pipe buffer
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
	s := newEnv(t, Config{Commands: map[string]Command{
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
		{"all", "0", done, ""}, {"signal", "", retry, "killed"}, {"none", "", retry, "cannot start"},
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

// startTime is the timeout of programs that must have printed something before. It is as long as a
// busy machine may take to start some processes.
const startTime = 3 * time.Second

// Endless output is read and truncated until the timeout.
func TestEndlessOutput(t *testing.T) {
	t.Parallel()
	s := one(t, Command{Path: script(t, "echo begin; yes"), Timeout: startTime, MaxOutput: 1000})
	info := s.run("cmd", "")
	expect(t, info, asynq.TaskStateRetry, "not finished within "+startTime.String())
	if text := string(info.Result); !strings.HasPrefix(text, "begin\ny\n") || !strings.Contains(text, "bytes omitted]") || len(text) > 1100 {
		t.Errorf("the result has %d bytes: %.100q", len(text), text)
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); <-ticker.C {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		// An orphan may remain as a zombie until it is reaped.
		if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(state), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still running", pid)
}

// pids reads process IDs that a command writes to a pipe, whose path is its argument.
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
	_ = f.SetReadDeadline(time.Now().Add(2 * timeout))
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

// Cancellation ends the whole process group, including processes that ignore SIGTERM.
func TestCancelEndsProcessGroup(t *testing.T) {
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

// A program has the grace period to handle SIGTERM.
func TestGracePeriod(t *testing.T) {
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

// A stopped program has not succeeded, whatever its exit code.
func TestStoppedProgramIsRetried(t *testing.T) {
	t.Parallel()
	// A program writes its process ID last: from then on, it may be stopped.
	const path, wait = "echo half; trap 'exit %d' TERM; echo $$ >>\"$1\"; ", "while :; do sleep 0.02; done"
	p := newPids(t)
	args := []string{p.path}
	exits0 := strings.Replace(path, "%d", "0", 1) + wait
	s := newEnv(t, Config{Commands: map[string]Command{
		"late":     {Args: args, Path: script(t, exits0), Timeout: startTime},
		"canceled": {Args: args, Path: script(t, exits0)},
		"listed":   {Args: args, Path: script(t, "echo why >&2; "+strings.Replace(path, "%d", "3", 1)+wait), Exit: Exit{Done: []int{3}}},
	}})
	for typename, want := range map[string]string{
		"late": "run.sh was stopped: not finished within " + startTime.String() + " (exit status 0): half", "canceled": "(exit status 0): half", "listed": "(exit status 3): half  why",
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

// Background processes of a program end with it and do not delay its task.
func TestBackgroundProcessesEnd(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	s := one(t, Command{Args: []string{p.path}, Path: script(t, `sleep 1000 & echo $! >>"$1"; echo done`)})
	info := s.run("cmd", "")
	if expect(t, info, asynq.TaskStateCompleted, ""); string(info.Result) != "done\n" {
		t.Errorf("result %q", info.Result)
	}
	gone(t, p.next(t))
}

// Processes that keep forking end, too.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	p := newPids(t)
	// The depth limits its size. It would never end by itself.
	s := one(t, Command{Timeout: startTime, Grace: 50 * time.Millisecond, Args: []string{p.path, "0"}, Path: script(t, `
		trap "" TERM
		echo $$ >>"$1"
		[ "$2" -ge 3 ] || { "$0" "$1" $(($2+1)) & "$0" "$1" $(($2+1)) & }
		while :; do sleep 0.1 & wait; done`)})
	expect(t, s.run("cmd", ""), asynq.TaskStateRetry, "not finished within")
	for range 5 {
		gone(t, p.next(t))
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Commands: map[string]Command{"x": {Path: "/bin/id", User: "no-such-user"}}}, quiet); err == nil {
		t.Error("an unknown user is accepted")
	}
	account, err := user.Lookup("nobody")
	if err != nil || os.Getuid() != 0 {
		return // the user does not exist, or switching to it is not permitted
	}
	s := one(t, Command{Path: "/usr/bin/id", Args: []string{"-u"}, User: "nobody"})
	if info := s.run("cmd", ""); string(info.Result) != account.Uid+"\n" {
		t.Errorf("ran as %q, want %q: %s", info.Result, account.Uid, info.LastErr)
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
		t.Error("a type that is both was accepted")
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	s := one(t, Command{Path: "/bin/echo"})
	s.queues["other"] = "cmd"
	expect(t, s.run("other", ""), asynq.TaskStateRetry, `task type "other" is not hosted`)
}

// No program starts for a task that is already canceled.
func TestCanceledBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(asynq.ErrTaskCanceled)
	cmd := exec.Command("/bin/echo")
	if _, err := runGroup(ctx, cmd, nil, time.Second); !errors.Is(err, asynq.ErrTaskCanceled) || cmd.Process != nil {
		t.Errorf("got %v", err)
	}
}
