package filter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

func sample() *asynq.TaskInfo {
	return &asynq.TaskInfo{
		ID: "abc123", Queue: "critical", Type: "email:welcome", State: asynq.TaskStateRetry, Group: "g 1",
		PartitionKey: "customer-7", FlowID: "order (1)", FlowNode: "pack",
		Payload:  []byte(`{"user_id":42,"to":{"name":"Ada"},"big":9007199254740993,"tags":["a","b"],"ok":true}`),
		Headers:  map[string]string{"trace": "t-1"},
		MaxRetry: 25, Retried: 3, LastErr: "dial tcp: i/o timed out", Result: []byte("done 100%"),
	}
}

func TestMatch(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                     true,
		"type:email:*":                         true,
		"type:email:welcome":                   true,
		"type:email":                           false,
		"type:*welc?me":                        true,
		"type=email:*":                         false,
		`type:"email:*"`:                       false,
		"id:abc*":                              true,
		"id:bc*":                               false,
		`error:"timed out"`:                    true,
		"error:tcp*out":                        true,
		"error:out*tcp":                        false,
		"payload:user_id=42":                   true,
		"payload:user_id=4":                    false,
		"payload:to.name=Ada":                  true,
		"payload:to.name=A*":                   true,
		"payload:big=" + "9007199254740993":    true,
		"payload:big=" + "9007199254740992":    false,
		"payload:tags=b":                       true,
		"payload:tags.0=b":                     false,
		"payload:tags.1=b":                     true,
		"payload:ok=true":                      true,
		`payload:"user_id\":4"`:                true,
		`payload:"user_id=42"`:                 false,
		"header:trace":                         true,
		"header:trace=t-1":                     true,
		"header:trace=t-?":                     true,
		"header:trace=x":                       false,
		"header:other":                         false,
		"result:100%":                          true,
		`group:"g 1"`:                          true,
		"partition:customer-7":                 true,
		"partition:customer":                   false,
		"flow:order*":                          true,
		`flow="order (1)" node=pack`:           true,
		"flow:pack":                            false,
		`node:""`:                              false,
		"state:retry":                          true,
		"state:archived":                       false,
		"-state:archived":                      true,
		"queue:critical":                       true,
		"queue!=critical":                      false,
		"retried>=3":                           true,
		"retried>3":                            false,
		"retried:3":                            true,
		"max_retry<26":                         true,
		"size>1MB":                             false,
		"size<1kib":                            true,
		"timed":                                true,
		"nothing":                              false,
		"TIMED":                                true,
		`"email:Welcome"`:                      true,
		"aDA*tags":                             true,
		`"OR"`:                                 false,
		"type:a OR type:email*":                true,
		"type:a type:email*":                   false,
		"NOT (type:a OR retried:4)":            true,
		"-(type:a OR retried:3)":               false,
		"type:a type:b OR retried:3":           true,
		"(type:a OR type:email:*) AND id:abc*": true,
		"--id:abc*":                            true,
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Match(sample()); got != want {
			t.Errorf("%s matches the task: %v, want %v", text, got, want)
		}
		again, err := filter.Parse(f.String())
		if err != nil || again.String() != f.String() || again.Match(sample()) != want {
			t.Errorf("%s becomes %s, which matches: %v (%v)", text, f, again, err)
		}
	}
}

func TestErrorsSayWhereAndWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"type:a (id:b":           `at character 8: unclosed "(": add a ")" after its terms`,
		"type:a)":                `at character 7: unmatched ")": remove it, or quote it`,
		`ä error:"x`:             `at character 9: unclosed quote: add a " after the text`,
		"type:":                  `at character 6: missing value; for an empty one write type:""`,
		"retried>x":              `at character 1: "x" is not a number: write retried>=3, for example`,
		"size>1XB":               `"1XB" is not a size`,
		"age>soon":               `"soon" is not a duration: write 90s`,
		"age:1m":                 `age is compared with < or >`,
		"state:done":             `unknown state "done": use active, aggregating`,
		"a OR":                   `missing term`,
		"OR a":                   `at character 1: OR needs a term on both sides`,
		"()":                     `at character 2: missing term before ")"`,
		"x age>1m OR id:b":       "at character 3: an age cannot be inside OR or NOT",
		"tpye:a":                 "unknown field tpye: use age, error,",
		"type>a":                 "type is compared with : or =, not with >",
		"header:=x":              "missing header name",
		"\xff":                   "not UTF-8",
		strings.Repeat("(", 200): "nested deeper than 100",
		"-":                      "missing term",
	} {
		_, err := filter.Parse(text)
		var syntax *filter.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
			continue
		}
		if lines := strings.Split(syntax.Pointer(), "\n"); len(lines) != 2 {
			t.Errorf("%s: pointer %q", text, lines)
		}
	}
}

func TestTaskFilter(t *testing.T) {
	f := filter.MustParse("age>10m age<2d -age>=1d age>5m type:a")
	got := f.TaskFilter()
	if got.MinAge != 10*time.Minute || got.MaxAge != 24*time.Hour || got.Match == nil || !f.ByAge() {
		t.Errorf("got %+v", got)
	}
	if got := filter.MustParse("").TaskFilter(); got.Match != nil || got.MinAge != 0 {
		t.Errorf("an empty filter becomes %+v", got)
	}
	var none *filter.Filter
	if !none.Match(sample()) || !none.Empty() || none.String() != "" || !none.MayMatch("q", asynq.TaskStateActive) {
		t.Error("a nil filter does not match all tasks")
	}
}

func TestMayMatch(t *testing.T) {
	f := filter.MustParse("queue:crit* (state:retry OR state:archived) -type:a")
	for _, tc := range []struct {
		queue string
		state asynq.TaskState
		want  bool
	}{
		{"critical", asynq.TaskStateRetry, true}, {"critical", asynq.TaskStatePending, false}, {"low", asynq.TaskStateRetry, false},
		{"", asynq.TaskStateArchived, true}, {"critical", 0, true},
	} {
		if got := f.MayMatch(tc.queue, tc.state); got != tc.want {
			t.Errorf("MayMatch(%q, %v) = %v", tc.queue, tc.state, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`type:email:* error:"timed out" payload:user_id=42 state:retry queue:critical age>10m retried>=3 -type:report:* id:abc* size>1MB`,
		`NOT (a OR "b\"\\\x00\n") AND header:x=y`, `payload:"a"b*="c"`, `--a!=b`, "age>=1w2d3h -age<5s (x OR y)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := filter.Parse(text)
		if err != nil {
			var syntax *filter.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("%q: %v is not a *SyntaxError", text, err)
			}
			_, _ = err.Error(), syntax.Pointer()
			return
		}
		again, err := filter.Parse(parsed.String())
		if err != nil {
			t.Fatalf("%q is printed as %q, which is not parsed: %v", text, parsed, err)
		}
		if again.String() != parsed.String() {
			t.Fatalf("%q is printed as %q, and that as %q", text, parsed, again)
		}
		if parsed.Match(sample()) != again.Match(sample()) || parsed.ByAge() != again.ByAge() {
			t.Fatalf("%q and %q match different tasks", text, parsed)
		}
	})
}
