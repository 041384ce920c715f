package rdb_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
)

// The numbers in Go are those in Lua.
func TestCodesAreThoseOfLua(t *testing.T) {
	got := luaNumbers(t, "codes")
	want := make(map[string]string)
	for name, code := range map[string]rdb.Code{
		"OK": rdb.CodeOK, "ALREADY": rdb.CodeAlready, "GONE": rdb.CodeGone, "LOST": rdb.CodeLost, "CONFLICT": rdb.CodeConflict,
		"DUPLICATE": rdb.CodeDuplicate, "STALE": rdb.CodeStale, "PAUSED": rdb.CodePaused, "CAPPED": rdb.CodeCapped,
		"ACTIVE": rdb.CodeActive, "STAGED": rdb.CodeStaged, "UNFIT": rdb.CodeUnfit, "LATER": rdb.CodeLater, "CHANGED": rdb.CodeChanged,
		"BROKEN": rdb.CodeBroken, "NONEMPTY": rdb.CodeNonempty,
	} {
		want[name] = fmt.Sprint(int(code))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-Go +Lua):\n%s", diff)
	}
}

func TestFindingsAreThoseOfLua(t *testing.T) {
	want := make(map[string]string)
	for name, n := range rdb.FindingNumbers() {
		want[name] = fmt.Sprint(n)
	}
	if diff := cmp.Diff(want, luaNumbers(t, "findings")); diff != "" {
		t.Errorf("(-Go +Lua):\n%s", diff)
	}
}

// luaNumbers returns the numbers that a shared part names.
func luaNumbers(t *testing.T, lib string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("lua/lib/" + lib + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^local (\w+) += (\d+)`).FindAllStringSubmatch(string(text), -1) {
		numbers[m[1]] = m[2]
	}
	return numbers
}

func TestCodeErrors(t *testing.T) {
	for code, want := range map[rdb.Code]error{
		rdb.CodeOK: nil, rdb.CodeAlready: nil, rdb.CodeGone: rdb.ErrTaskGone, rdb.CodeLost: rdb.ErrTokenLost,
		rdb.CodeConflict: rdb.ErrTaskIDConflict, rdb.CodeDuplicate: rdb.ErrDuplicateTask,
	} {
		if err := code.Err(); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("code %d is %v, want %v", code, err, want)
		}
	}
	if err := rdb.Code(99).Err(); err == nil {
		t.Error("an unknown code is no error")
	}
}

func TestRefused(t *testing.T) {
	for _, err := range []error{nil, io.EOF, errors.New("redis: connection pool timeout")} {
		if rdb.Refused(err) {
			t.Errorf("%v is taken for an answer of Redis", err)
		}
	}
}
