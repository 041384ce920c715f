package rdb

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua lua/lib/*.lua
var luaFiles embed.FS

// script is one transition: the text that Redis runs, and what its header says of its KEYS and ARGV.
type script struct {
	name string
	text string
	sha  any // a string, boxed once
	keys arity
	args arity
}

// arity is how many values a header declares: fixed ones, and from there on any number where variadic is set.
type arity struct {
	fixed    int
	variadic bool
}

func (a arity) admits(n int) bool { return n == a.fixed || a.variadic && n >= a.fixed }

var (
	enqueueScript         = loadScript("enqueue")
	scheduleScript        = loadScript("schedule")
	groupScript           = loadScript("group")
	fetchScript           = loadScript("fetch")
	unfetchScript         = loadScript("unfetch")
	doneScript            = loadScript("done")
	completeScript        = loadScript("complete")
	retryScript           = loadScript("retry")
	archiveScript         = loadScript("archive")
	discardScript         = loadScript("discard")
	requeueScript         = loadScript("requeue")
	turnScript            = loadScript("turn")
	extendScript          = loadScript("extend")
	expiredScript         = loadScript("expired")
	recoverScript         = loadScript("recover")
	forwardScript         = loadScript("forward")
	expireCompletedScript = loadScript("expire_completed")
	trimArchivedScript    = loadScript("trim_archived")
	writeResultScript     = loadScript("write_result")
	passMarkerScript      = loadScript("pass_marker")
	taskInfoScript        = loadScript("task_info")
	stageScript           = loadScript("stage")
	readSetsScript        = loadScript("read_sets")
	handOverScript        = loadScript("hand_over")
	purgeSpentScript      = loadScript("purge_spent")
	extendSetsScript      = loadScript("extend_sets")
	regroupScript         = loadScript("regroup")
	indexGroupsScript     = loadScript("index_groups")
	setAsideStagedScript  = loadScript("set_aside_staged")
	leadScript            = loadScript("lead")
	abdicateScript        = loadScript("abdicate")
	forgetGroupScript     = loadScript("forget_group")
	cancelScript          = loadScript("cancel")
	enqueueTickScript     = loadScript("enqueue_tick")
	recallTickScript      = loadScript("recall_tick")
	runTasksScript        = loadScript("run_tasks")
	archiveTasksScript    = loadScript("archive_tasks")
	deleteTasksScript     = loadScript("delete_tasks")
	rescheduleTasksScript = loadScript("reschedule_tasks")
	updateMessageScript   = loadScript("update_message")
	closeQueueScript      = loadScript("close_queue")
	removeQueueScript     = loadScript("remove_queue")
	sweepTasksScript      = loadScript("sweep_tasks")
	sweepLocksScript      = loadScript("sweep_locks")
	diagnoseTasksScript   = loadScript("diagnose_tasks")
	diagnoseMembersScript = loadScript("diagnose_members")
	diagnoseListScript    = loadScript("diagnose_list")
	diagnoseTwiceScript   = loadScript("diagnose_twice")
	diagnoseLocksScript   = loadScript("diagnose_locks")
	diagnoseGroupScript   = loadScript("diagnose_group")
	listTasksScript       = loadScript("list_tasks")
	listAfterScript       = loadScript("list_after")
	listGroupedScript     = loadScript("list_grouped")
	listKnownScript       = loadScript("list_known")
	groupSizesScript      = loadScript("group_sizes")
	queueStatsScript      = loadScript("queue_stats")
	queueMemoryScript     = loadScript("queue_memory")
	exportTasksScript     = loadScript("export_tasks")
	importTasksScript     = loadScript("import_tasks")
)

var (
	headerLine  = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+)(\.\.)?\]`)
	includeLine = regexp.MustCompile(`(?m)^-- include: (.+)$`)
)

// loadScript reads an embedded script, puts the shared parts that it names in place of its include line, and leaves the
// comments out. The files are part of the binary, so a mistake in them is a panic at start, met by every test.
func loadScript(name string) *script {
	file, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	s := &script{name: name}
	for line := range strings.Lines(string(file)) {
		if m := headerLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			a := arity{fixed: n}
			if m[3] != "" {
				a = arity{fixed: n - 1, variadic: true}
			}
			if m[1] == "KEYS" {
				s.keys = a
			} else {
				s.args = a
			}
		}
	}
	text := includeLine.ReplaceAllStringFunc(string(file), func(line string) string {
		var parts strings.Builder
		for _, part := range strings.Fields(includeLine.FindStringSubmatch(line)[1]) {
			lib, err := luaFiles.ReadFile("lua/lib/" + part + ".lua")
			if err != nil {
				panic(err)
			}
			parts.Write(lib)
		}
		return parts.String()
	})
	s.text = stripComments(text)
	sum := sha1.Sum([]byte(s.text)) //nolint:gosec // See the import.
	s.sha = hex.EncodeToString(sum[:])
	return s
}

// stripComments drops the lines that are only a comment: the files carry none behind code.
func stripComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// call is one EVALSHA in the making: the keys first, then the arguments.
type call struct {
	script *script
	args   []any // evalsha, sha, number of keys, keys…, arguments…
	keys   int
	once   bool   // never to be repeated by go-redis
	after  bool   // has to come after those before it: sent again where these are
	queue  *queue // of a call that makes tasks

	reply any
	err   error
}

const callPrefix = 3

// newCall starts a call with room for so many keys and arguments.
func newCall(s *script, size int) *call {
	c := &call{script: s, args: make([]any, callPrefix, callPrefix+size)}
	c.args[0], c.args[1] = "evalsha", s.sha
	return c
}

// key adds keys. It must not follow arg.
func (c *call) key(keys ...any) *call {
	c.args = append(c.args, keys...)
	c.keys += len(keys)
	return c
}

// arg adds arguments.
func (c *call) arg(args ...any) *call {
	c.args = append(c.args, args...)
	return c
}

// cmd makes the command that runs the script by its SHA-1.
func (c *call) cmd(ctx context.Context) *redis.Cmd {
	c.args[2] = c.keys
	if n := len(c.args) - callPrefix - c.keys; !c.script.keys.admits(c.keys) || !c.script.args.admits(n) {
		// Only a mistake in this package gets here; going on would let a script read what is not there.
		panic(fmt.Sprintf("rdb: %s.lua called with %d keys and %d arguments, which its header does not admit",
			c.script.name, c.keys, n))
	}
	cmd := redis.NewCmd(ctx, c.args...)
	cmd.SetFirstKeyPos(callPrefix)
	return cmd
}

// full makes the command that sends the script's text, for a Redis that does not have it.
func (c *call) full(ctx context.Context) *redis.Cmd {
	args := append([]any{"eval", c.script.text}, c.args[2:]...)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(callPrefix)
	return cmd
}
