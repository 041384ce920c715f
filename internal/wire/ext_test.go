package wire_test

import (
	"maps"
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestExt(t *testing.T) {
	for _, tt := range []struct{ ext, key, want, set, unset wire.Ext }{
		{"", "a", "", "a=1", ""},
		{"a=2", "a", "2", "a=1", ""},
		{"b=2", "a", "", "b=2;a=1", "b=2"},
		{"b=2;a=3;c", "a", "3", "b=2;c;a=1", "b=2;c"},
		{"a=x=y;a=z", "a", "x=y", "a=1", ""},
		{";;a", "a", "", "a=1", ""},
		{"aa=3", "a", "", "aa=3;a=1", "aa=3"},
	} {
		if got := tt.ext.Get(string(tt.key)); got != string(tt.want) {
			t.Errorf("%q: %s is %q, want %q", tt.ext, tt.key, got, tt.want)
		}
		if got := tt.ext.Set(string(tt.key), "1"); got != tt.set {
			t.Errorf("%q: after %s is set: %q, want %q", tt.ext, tt.key, got, tt.set)
		}
		if got := tt.ext.Set(string(tt.key), ""); got != tt.unset {
			t.Errorf("%q: after %s is removed: %q, want %q", tt.ext, tt.key, got, tt.unset)
		}
	}
}

func TestExtOfMessage(t *testing.T) {
	user := map[string]string{"trace": "1"}
	for _, headers := range []map[string]string{nil, {}, user} {
		before := maps.Clone(headers)
		m := wire.TaskMessage{ID: "id", Headers: headers}
		m.SetExt("")
		m.SetExt(m.Ext().Set("k", "v"))
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := wire.DecodeTaskMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := decoded.Ext().Get("k"); got != "v" {
			t.Errorf("headers %v: k is %q after encoding and decoding", headers, got)
		}
		if got := wire.UserHeaders(decoded.Headers); !maps.Equal(got, before) || len(before) == 0 && got != nil {
			t.Errorf("the user sees the headers %v, want %v", got, before)
		}
		if decoded.SetExt(""); !maps.Equal(decoded.Headers, before) || decoded.Ext() != "" {
			t.Errorf("after its removal: headers %v, want %v", decoded.Headers, before)
		}
		if !maps.Equal(headers, before) {
			t.Errorf("the map of the user changed to %v", headers)
		}
	}
	if got := wire.UserHeaders(user); got["trace"] != "1" {
		t.Errorf("headers without extensions became %v", got)
	} else if got["new"] = "2"; user["new"] != "2" {
		t.Error("headers without extensions were copied")
	}
}
