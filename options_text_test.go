package asynq

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestFormatOption(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 123, time.FixedZone("", 3600))
	formatted := make(map[OptionType]bool)
	for _, opt := range []Option{
		MaxRetry(3), Queue(`a"b\` + "\x00\n"), TaskID("a, b"), Timeout(90 * time.Millisecond), Timeout(math.MaxInt64), Deadline(at),
		Unique(time.Hour), ProcessAt(at), ProcessAt(time.Time{}), ProcessIn(-time.Minute), Retention(0), Group(")("), Header(`k", "`, `v")`),
		IdempotencyKey(`k", "`, time.Hour), UniqueKey(", ", time.Hour), OnDuplicate(Replace), Debounce(`",")`, 1, 0), Throttle("(", 1), ExpiresIn(1), PartitionKey(`k", "`),
		Awaitable(), CancelOnReturn(),
	} {
		text, err := FormatOption(opt)
		if err != nil {
			t.Errorf("%v: %v", opt, err)
			continue
		}
		again, err := ParseOption(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		formatted[opt.Type()] = true
		if at, ok := opt.Value().(time.Time); ok {
			if !again.Value().(time.Time).Equal(at) {
				t.Errorf("%v has the text %s, of %v", opt, text, again)
			}
		} else if again != opt {
			t.Errorf("%v has the text %s, of %v", opt, text, again)
		}
	}
	for kind, k := range optionKinds {
		if k.name != "" && !formatted[OptionType(kind)] {
			t.Errorf("%s is not tested", k.name)
		}
	}
	for _, opt := range []Option{nil, Option(nil), ProcessAt(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))} {
		if text, err := FormatOption(opt); err == nil {
			t.Errorf("%v has the text %q, want an error", opt, text)
		}
	}
	if _, err := ParseOption("Priority(3)"); err == nil || !strings.Contains(err.Error(), `"Priority(3)"`) {
		t.Errorf("unknown option: error %v, want one that quotes it", err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := NewTask("t", nil, Queue("")).Validate(); err == nil {
		t.Error("an invalid option of the task is accepted")
	}
	if err := NewTask("t", nil, Queue("")).Validate(Queue("q")); err == nil {
		t.Error("an invalid option that another one overrides is accepted: Enqueue returns an error")
	}
	if err := NewTask("t", nil, Queue("q")).Validate(MaxRetry(3)); err != nil {
		t.Errorf("a valid task: %v", err)
	}
}
