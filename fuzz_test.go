package asynq

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/wire"
)

// FuzzServeMux registers patterns, and holds the one that is found against a search through all of them.
func FuzzServeMux(f *testing.F) {
	f.Add("a\nab\nabc", "abcd")
	f.Add("email:\n\n \nemail:welcome", "email:welcome")
	f.Add("\xff\n\xc3", "\xff\xfe")
	f.Fuzz(func(t *testing.T, patterns, typename string) {
		mux := NewServeMux()
		want := ""
		var known []string
		for pattern := range strings.SplitSeq(patterns, "\n") {
			if strings.TrimSpace(pattern) == "" || slices.Contains(known, pattern) {
				continue // refused with a panic
			}
			known = append(known, pattern)
			mux.Handle(pattern, namedHandler(pattern))
			if strings.HasPrefix(typename, pattern) && len(pattern) > len(want) {
				want = pattern
			}
		}
		task := NewTask(typename, nil)
		if _, got := mux.Handler(task); got != want {
			t.Errorf("type %q is handled by %q, want %q of %q", typename, got, want, known)
		}
		if err := mux.ProcessTask(context.Background(), task); want != "" && err.Error() != want {
			t.Errorf("the handler of %q answers %q", want, err)
		}
	})
}

// FuzzNewCreation makes tasks of any parts: either they are refused with an error of ours, or their message says what was asked for.
func FuzzNewCreation(f *testing.F) {
	f.Add("type", []byte("payload"), "default", "id", "group", "key", "value", 3, int64(time.Minute), int64(1_800_000_000))
	f.Add("", []byte(nil), "}", "", "", "", "", -1, int64(-1), int64(-1<<62))
	f.Add("\xff", []byte{}, "a}b", "\x00", "{", "\n", "\xff", 1<<40, int64(1<<63-1), int64(1<<63-62_135_596_801))
	keys := func(queue string) wire.Queue { return wire.DefaultNamespace.Queue(queue) }
	f.Fuzz(func(t *testing.T, typename string, payload []byte, queue, id, group, key, value string, n int, d, unix int64) {
		at := time.Unix(unix, 1)
		opts := []Option{
			Queue(queue), TaskID(id), Header(key, value), MaxRetry(n), Timeout(time.Duration(d)), Retention(time.Duration(d)),
			Unique(time.Duration(d)), Deadline(at), ProcessAt(at),
		}
		if group != "" {
			opts = append(opts, Group(group))
		}
		now := time.Unix(1_700_000_000, 0)
		made, err := newCreation(NewTask(typename, payload), opts, keys, now)
		if err != nil {
			if made != nil || !strings.HasPrefix(err.Error(), "asynq: ") {
				t.Errorf("got %+v and the error %q", made, err)
			}
			return
		}
		msg, err := wire.DecodeTaskMessage(made.order.Message)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Type != typename || !bytes.Equal(msg.Payload, payload) || msg.Queue != queue || msg.ID != id || msg.Group != group ||
			msg.Headers[key] != value || made.order.Queue != queue || made.order.ID != id {
			t.Errorf("the message is %+v", msg)
		}
		info := made.info()
		if info.Timeout < 0 || info.Retention < 0 || info.MaxRetry < 0 || made.order.LockTTL <= 0 || made.order.ProcessAt < 0 {
			t.Errorf("an overflow: %+v, %+v", info, made.order)
		}
		if at.After(now) != (made.order.ProcessAt > 0) || made.order.ProcessAt > 0 && made.order.ProcessAt < unix {
			t.Errorf("%v is to be processed at %d", at, made.order.ProcessAt)
		}
		if !strings.HasPrefix(made.order.Lock, keys(queue).Prefix()) || !utf8.ValidString(made.order.Lock) {
			t.Errorf("the lock is %q", made.order.Lock)
		}
		for _, opt := range opts {
			if again, ok := parseOption(exactOption(opt)); ok && exactOption(again) != exactOption(opt) {
				t.Errorf("%v is read as %v", opt, again)
			}
		}
	})
}

// FuzzLogLevel reads levels: those that there are, in upper and lower case.
func FuzzLogLevel(f *testing.F) {
	for _, text := range []string{"debug", "INFO", "warning", "fatal", "", "LogLevel(7)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var level LogLevel
		if err := level.Set(text); err != nil {
			if level != 0 || !strings.Contains(err.Error(), strconv.Quote(text)) {
				t.Errorf("%q sets %v, error %v", text, level, err)
			}
			return
		}
		if !strings.HasPrefix(strings.ToLower(text), level.String()) {
			t.Errorf("%q sets %v", text, &level)
		}
	})
}

// FuzzLogLine logs values that anybody may have chosen, such as the ID of a task: a line stays one line.
func FuzzLogLine(f *testing.F) {
	f.Add("id", "a\nERROR: forged", "x")
	f.Add("k=\r", "\u2028\x00", "\xff\"")
	f.Fuzz(func(t *testing.T, key, value, group string) {
		logger := new(lineLogger)
		log := newSlog(logger, DebugLevel)
		log.Info("a message", key, value)
		log.WithGroup(group).With(key, value).Warn("a message", "task", value)
		if len(logger.lines) != 2 {
			t.Fatalf("%d lines", len(logger.lines))
		}
		for _, line := range logger.lines {
			if strings.ContainsAny(line, "\r\n") {
				t.Errorf("%q is more than one line", line)
			}
		}
	})
}
