package wire_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/asynq-go/asynq/internal/wire"
)

// FuzzDecodeTaskMessage decodes arbitrary input.
func FuzzDecodeTaskMessage(f *testing.F) {
	addGolden(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) { checkDecode(t, kindOf(t, &wire.TaskMessage{}), b) })
}

// FuzzRoundTrip does the same for the other messages; which selects the message.
func FuzzRoundTrip(f *testing.F) {
	addGolden(f, func(b []byte) {
		for which := range uint8(len(kinds)) {
			f.Add(which, b)
		}
	})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) { checkDecode(t, kinds[int(which)%len(kinds)], b) })
}

// addGolden adds every golden message.
func addGolden(f *testing.F, add func([]byte)) {
	f.Helper()
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), ".hex"); ok {
			add(readGolden(f, name))
		}
	}
}

// checkDecode checks that the decoder, if it accepts b, returns the same as the standard one, and
// that encoding the result is stable. The decoder rejects more than the standard one, which treats
// a field with a wrong wire type as unknown.
func checkDecode(t *testing.T, k kind, b []byte) {
	t.Helper()
	decoded, err := k.decode(bytes.Clone(b))
	if err != nil {
		return
	}

	std := dynamicpb.NewMessage(schema.Messages().ByName(protoreflect.Name(k.name)))
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, std); err != nil {
		t.Fatalf("accepted, but the standard decoder fails: %v", err)
	}
	normalize(std)
	if want := standard(k, decoded); !proto.Equal(std, want) {
		t.Fatalf("decoded to %v, by the standard decoder to %v", want, std)
	}

	encoded, err := k.encode(decoded)
	if err != nil {
		t.Fatalf("decoded, but not encodable: %v", err)
	}
	again, err := k.decode(bytes.Clone(encoded))
	if err != nil {
		t.Fatalf("encoded to %x, which is not decodable: %v", encoded, err)
	}
	if diff := cmp.Diff(decoded, again); diff != "" {
		t.Fatalf("changed by encoding (-before +after):\n%s", diff)
	}
	settled, err := k.encode(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encoded, settled) {
		t.Fatalf("encoded to %x, then to %x", encoded, settled)
	}
}

// normalize changes all timestamps of a message to the form that we write: present, with
// nanoseconds within a second.
func normalize(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.IsMap() || fd.Kind() != protoreflect.MessageKind {
			continue
		}
		var at time.Time
		if m.Has(fd) {
			ts := m.Get(fd).Message()
			nums := ts.Descriptor().Fields()
			at = time.Unix(ts.Get(nums.ByName("seconds")).Int(), ts.Get(nums.ByName("nanos")).Int())
		}
		setTimestamp(m.Mutable(fd).Message(), at)
	}
}
