package script_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// The numbers in Go and Lua agree.
func TestCodesAreThoseOfLua(t *testing.T) {
	got := redistest.LuaNumbers(t, "lua/codes.lua")
	want := make(map[string]string)
	for name, code := range map[string]script.Code{
		"OK": script.CodeOK, "ALREADY": script.CodeAlready, "GONE": script.CodeGone, "LOST": script.CodeLost, "CONFLICT": script.CodeConflict,
		"DUPLICATE": script.CodeDuplicate, "STALE": script.CodeStale, "PAUSED": script.CodePaused, "CAPPED": script.CodeCapped,
		"ACTIVE": script.CodeActive, "STAGED": script.CodeStaged, "UNFIT": script.CodeUnfit, "LATER": script.CodeLater, "CHANGED": script.CodeChanged,
		"BROKEN": script.CodeBroken, "NONEMPTY": script.CodeNonempty, "FIRST": script.CodeFirst,
	} {
		want[name] = fmt.Sprint(int(code))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-Go +Lua):\n%s", diff)
	}
}

func TestCodeErrors(t *testing.T) {
	for code, want := range map[script.Code]error{
		script.CodeOK: nil, script.CodeAlready: nil, script.CodeFirst: nil, script.CodeGone: script.ErrTaskGone, script.CodeLost: script.ErrTokenLost,
		script.CodeConflict: script.ErrTaskIDConflict, script.CodeDuplicate: script.ErrDuplicateTask,
	} {
		if err := code.Err(); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("code %d is %v, want %v", code, err, want)
		}
	}
	if err := script.Code(99).Err(); err == nil {
		t.Error("an unknown code is no error")
	}
}

func TestRefused(t *testing.T) {
	for _, err := range []error{nil, io.EOF, errors.New("redis: connection pool timeout")} {
		if script.Refused(err) {
			t.Errorf("%v is taken for an answer of Redis", err)
		}
	}
}
