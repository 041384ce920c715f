package script

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func replied(reply any) *Call {
	return &Call{Script: &Script{Name: "some_script"}, Reply: reply}
}

func TestReader(t *testing.T) {
	r := replied([]any{int64(7), "id", nil, "text", nil, int64(1), int64(0), []any{"in", int64(3)}, "raw"}).Read()
	if n, id, none := r.Int(), r.Text(), r.Text(); n != 7 || id != "id" || none != "" {
		t.Errorf("read %d, %q, %q", n, id, none)
	}
	if text, none := r.Bytes(), r.Bytes(); string(text) != "text" || none != nil {
		t.Errorf("read %q, %q", text, none)
	}
	if yes, no := r.Bool(), r.Bool(); !yes || no {
		t.Errorf("read %v, %v", yes, no)
	}
	if in := r.List(); in.Text() != "in" || in.Code() != CodeDuplicate-2 || in.More() || in.Err() != nil {
		t.Errorf("read the inner list wrongly, error %v", in.Err())
	}
	if raw := r.Value(); raw != "raw" || r.More() || r.Err() != nil {
		t.Errorf("read %v, error %v", raw, r.Err())
	}
	r = replied(int64(5)).Read()
	if n := r.Int(); n != 5 || r.Len() != 0 || r.Err() != nil {
		t.Errorf("read %d of a single value, error %v", n, r.Err())
	}
}

// After an error, nothing is read, and the first error remains.
func TestReaderRemembersItsFirstError(t *testing.T) {
	reads := map[string]func(r *Reader){
		"Int": func(r *Reader) { r.Int() }, "Bool": func(r *Reader) { r.Bool() }, "Code": func(r *Reader) { r.Code() },
		"Text": func(r *Reader) { r.Text() }, "Bytes": func(r *Reader) { r.Bytes() }, "List": func(r *Reader) { r.List() },
	}
	wrong := map[string]any{"Int": "x", "Bool": nil, "Code": "1", "Text": int64(1), "Bytes": []any{}, "List": "x"}
	for name, read := range reads {
		for _, reply := range []any{[]any{wrong[name], int64(1), "x"}, wrong[name], []any{}} {
			r := replied(reply).Read()
			if name == "Bytes" && r.Len() == 0 {
				continue // the list itself is the wrong value
			}
			read(&r)
			if n, text, code, in := r.Int(), r.Text(), r.Code(), r.List(); n != 0 || text != "" || code != CodeUnknown || r.More() || in.Err() == nil {
				t.Errorf("%s of %v: it reads on", name, reply)
			}
			if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "rdb: some_script: unexpected reply") {
				t.Errorf("%s of %v: error %v", name, reply, err)
			}
		}
	}
	failed := replied([]any{int64(1)})
	failed.Err = redis.ErrClosed
	if r := failed.Read(); r.More() || r.Int() != 0 || !errors.Is(r.Err(), redis.ErrClosed) {
		t.Errorf("a failed call: error %v", r.Err())
	}
	inside := errors.New("ERR inside of the reply")
	r := replied([]any{inside, int64(1)}).Read()
	if in := r.List(); !errors.Is(in.Err(), inside) || !errors.Is(r.Err(), inside) || r.Int() != 0 {
		t.Errorf("an error in a reply: %v", r.Err())
	}
}

func TestReadCodes(t *testing.T) {
	for _, test := range []struct {
		reply any
		want  []Code // nil: an error
	}{
		{int64(CodeOK), []Code{CodeOK, CodeOK}},
		{int64(CodeFirst), []Code{CodeFirst, CodeFirst}},
		{[]any{int64(CodeGone), int64(CodeOK)}, []Code{CodeGone, CodeOK}},
		{int64(CodeGone), nil},
		{[]any{int64(1)}, nil},
		{[]any{int64(1), int64(1), int64(1)}, nil},
		{[]any{int64(1), "1"}, nil},
		{"OK", nil},
		{nil, nil},
	} {
		r := replied(test.reply).ReadCodes(2)
		if (r.Err() == nil) != (test.want != nil) {
			t.Errorf("%v: error %v", test.reply, r.Err())
			continue
		}
		if got := []Code{r.Code(), r.Code()}; test.want != nil && !slices.Equal(got, test.want) || r.Err() == nil && r.More() {
			t.Errorf("%v: codes %v, want %v", test.reply, got, test.want)
		}
	}
}

// Replies of settlements and fetches are read without an allocation.
func TestReaderDoesNotAllocate(t *testing.T) {
	settled, fetched := replied(int64(0)), replied([]any{int64(0), int64(1), []any{"id", "message"}})
	allocs := testing.AllocsPerRun(100, func() {
		codes := settled.ReadCodes(50)
		for codes.More() {
			codes.Code()
		}
		r := fetched.Read()
		r.Code()
		r.Int()
		for tasks := r.List(); tasks.More(); {
			tasks.Text()
		}
		if codes.Err() != nil || r.Err() != nil {
			t.Error(codes.Err(), r.Err())
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
