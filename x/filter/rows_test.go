package filter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/filter"
)

func TestRows(t *testing.T) {
	t.Parallel()
	row := map[string]any{
		"name": "mail:fast", "count": int64(7), "rate": 0.5, "latency_msec": int64(90_000), "uptime_seconds": 7200,
		"memory_bytes": int64(2_000_000), "paused": false, "wait": 90 * time.Second, "none": nil, "start_time": "2026-10-01T08:00:00Z",
		"queues": map[string]any{"mail": int64(6), "low": int64(1)}, "workers": []any{map[string]any{"task_id": "abc", "note": "Ada"}},
		"": "seen",
	}
	for text, want := range map[string]bool{
		"": true, "name:mail:*": true, "name:mail": false, "name=mail:*": false, "name=mail:fast": true, "name!=mail": true, "-name:mail": true,
		"fast": true, "FAST": true, "slow": false, "-slow": true, `"l:f"`: true, "memory": false,
		"count:7": true, "count=7": true, "count!=7": false, "count>6": true, "count>7": false, "count>=7": true, "count<=6": false,
		"count:7*": true, "rate<1": true, "count<8 name:m*": true, "count<8 name:x*": false, "count<7 OR name:m*": true, "-(count<8 name:m*)": false,
		"paused:false": true, "paused!=false": false, "latency_msec>1m": true, "latency_msec>2m": false, "latency_msec>89999": true,
		"uptime_seconds>=2h": true, "uptime_seconds<1d": true, "memory_bytes>=2MB": true, "memory_bytes>2MB": false, "memory_bytes>1MiB": true,
		"wait>1m": true, "wait>1h": false, "none>1": false, "none<1": false, `none:""`: true, "none:x": false,
		"start_time>2026-09": true, "start_time>2026-11": false,
		"queues:mail": true, "queues:mail=6": true, "queues:mail=1": false, "queues:other": false,
		"workers:abc": true, "workers:task_id=a*": true, "workers:task_id=b*": false, "ada": true, "seen": true,
	} {
		f, err := filter.ParseRows(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(row); got != want || err != nil {
			t.Errorf("%s matches the row: %v (%v), want %v", text, got, err, want)
		}
		again, err := filter.ParseRows(f.String())
		if err != nil || again.String() != f.String() {
			t.Errorf("%s becomes %s, which matches: %v (%v)", text, f, again, err)
			continue
		}
		if got, err := again.Match(row); got != want || err != nil {
			t.Errorf("%s, printed as %s, matches the row: %v (%v), want %v", f, text, got, err, want)
		}
	}
}

func TestRowErrors(t *testing.T) {
	t.Parallel()
	row := map[string]any{"name": "a", "count": 7, "wait": time.Minute, "": "x"}
	for text, want := range map[string]string{
		"name:":                    "at character 6: missing value",
		"(name:a":                  `at character 1: unclosed "("`,
		"name:a OR colour:red":     "at character 11: unknown field colour: use count, name, wait; to search for the text itself, quote it",
		"name:a -(x OR count>all)": `at character 15: "all" is not a number to compare count with: write count>=3`,
		"wait>5":                   `"5" is not a duration: write wait>90s`,
		"count>NaN":                `"NaN" is not a number`,
	} {
		f, err := filter.ParseRows(text)
		if err == nil {
			_, err = f.Match(row)
		}
		var wrong *filter.SyntaxError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want a SyntaxError with %q", text, err, want)
		}
	}
	var none *filter.Rows
	if ok, err := none.Match(row); !ok || err != nil || !none.Empty() || none.String() != "" {
		t.Errorf("a nil filter matches: %v, %v", ok, err)
	}
}
