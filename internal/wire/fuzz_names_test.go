package wire_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// FuzzParseCancel parses arbitrary messages and encodes them again. The result must be the same.
func FuzzParseCancel(f *testing.F) {
	for _, message := range []string{"", "t1", "\x00archive\x00t1", "\x00delete\x00", "\x00archive\x00\x00delete\x00", "\x00archive"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		id, fate := wire.ParseCancel(message)
		if again := wire.CancelMessage(id, fate); again != message {
			t.Errorf("%q is parsed as %q and %v, and encoded as %q", message, id, fate, again)
		}
	})
}

// FuzzParseState parses arbitrary texts. Only the existing states may be accepted.
func FuzzParseState(f *testing.F) {
	for _, state := range wire.States() {
		f.Add(state.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		state, err := wire.ParseState(text)
		if err == nil && state.String() != text {
			t.Errorf("%q is parsed as %v", text, state)
		}
		if err != nil && state != 0 {
			t.Errorf("%q returns %v and an error", text, state)
		}
	})
}

// FuzzKeys checks that all keys of a queue are in one slot, that different tasks have different
// keys, and that GroupOf is the inverse of AggregationSet.
func FuzzKeys(f *testing.F) {
	f.Add("default", "id", "group", "type", []byte("payload"))
	f.Add("a}b", "{x}", "g:h", "t}", []byte(nil))
	f.Add("{}", "\n", "", "", []byte{})
	f.Fuzz(func(t *testing.T, queue, id, group, typename string, payload []byte) {
		if strings.TrimSpace(queue) == "" || strings.HasPrefix(queue, "}") {
			return // rejected by the public package
		}
		q := wire.DefaultNamespace.Queue(queue)
		day := time.Unix(1_800_000_000, 0)
		set := q.AggregationSet(group, "8a7a1b9e")
		tag := hashTag(q.Pending())
		if tag == q.Pending() {
			t.Errorf("%q has no hash tag", q.Pending())
		}
		for _, key := range []string{
			q.Active(), q.Lease(), q.Scheduled(), q.Retry(), q.Archived(), q.Completed(), q.Paused(), q.Groups(), q.Group(group),
			q.AggregationSets(), set, q.Processed(), q.Failed(), q.ProcessedOn(day), q.FailedOn(day), q.Task(id), q.Unique(typename, payload),
			q.Marker(), q.Unblock(id), q.IdempotencyRecord(id), q.GroupsDue(), q.GroupsSwept(), q.ConsumedSets(), q.Tick(id), q.Import(id),
		} {
			if !strings.HasPrefix(key, q.Prefix()) || hashTag(key) != tag {
				t.Errorf("%q is not in the slot of %q", key, q.Pending())
			}
		}
		if found, ok := wire.GroupOf(q, set); !ok || found != group {
			t.Errorf("the set %q is of group %q, GroupOf returns %q, %t", set, group, found, ok)
		}
		if found, ok := wire.GroupOf(q, id); ok && !strings.HasPrefix(id, q.Group(found)+":") {
			t.Errorf("GroupOf accepts %q as a set of group %q", id, found)
		}
		if rest, ok := strings.CutPrefix(q.Task(id), q.TaskPrefix()); !ok || rest != id {
			t.Errorf("the ID %q is %q in its key", id, rest)
		}
	})
}

// hashTag returns the part of a key that a Cluster hashes.
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); ok && closed && tag != "" {
		return tag
	}
	return key
}

// FuzzDecodeSchedulerCreation decodes arbitrary input. The result must survive another encoding.
func FuzzDecodeSchedulerCreation(f *testing.F) {
	f.Add([]byte(`{"type":"t","payload":null}`))
	f.Add([]byte(`{"type":"t\ud800","payload":"","headers":{"k":"v"},"options":["Queue(\"low\")"]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := wire.DecodeSchedulerCreation(b)
		if err != nil {
			if c != nil || !strings.HasPrefix(err.Error(), "wire: ") {
				t.Errorf("%q: %+v, error %v", b, c, err)
			}
			return
		}
		encoded, err := c.Encode()
		if err != nil {
			t.Fatalf("decoded, but not encodable: %v", err)
		}
		again, err := wire.DecodeSchedulerCreation(encoded)
		if err != nil {
			t.Fatalf("encoded to %s, which is not decodable: %v", encoded, err)
		}
		settled, err := again.Encode()
		if err != nil || !bytes.Equal(settled, encoded) {
			t.Errorf("encoded to %s, then to %s, error %v", encoded, settled, err)
		}
		if again.Type != c.Type || (again.Payload == nil) != (c.Payload == nil) || !bytes.Equal(again.Payload, c.Payload) ||
			len(again.Headers)+len(c.Headers) > 0 && !reflect.DeepEqual(again.Headers, c.Headers) {
			t.Errorf("%+v became %+v", c, again)
		}
	})
}
