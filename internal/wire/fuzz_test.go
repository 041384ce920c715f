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

// FuzzDecodeTaskMessage feeds the decoder what no encoder wrote.
func FuzzDecodeTaskMessage(f *testing.F) {
	addGolden(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) { checkDecode(t, kindOf(t, &wire.TaskMessage{}), b) })
}

// FuzzRoundTrip does the same to the other messages; which picks one of them.
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

// checkDecode checks that the decoder, if it accepts b, reads the same as the standard one, and that the result survives
// encoding, after which the bytes are settled. We refuse more than the standard does, which takes a field of a wrong wire
// type for an unknown one.
func checkDecode(t *testing.T, k kind, b []byte) {
	t.Helper()
	decoded, err := k.decode(bytes.Clone(b))
	if err != nil {
		return
	}

	std := dynamicpb.NewMessage(schema.Messages().ByName(protoreflect.Name(k.name)))
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, std); err != nil {
		t.Fatalf("we accept what the standard does not: %v", err)
	}
	settle(std)
	if want := standard(k, decoded); !proto.Equal(std, want) {
		t.Fatalf("we read %v, the standard %v", want, std)
	}

	encoded, err := k.encode(decoded)
	if err != nil {
		t.Fatalf("decoded, but does not encode: %v", err)
	}
	again, err := k.decode(bytes.Clone(encoded))
	if err != nil {
		t.Fatalf("encoded to %x, which does not decode: %v", encoded, err)
	}
	if diff := cmp.Diff(decoded, again); diff != "" {
		t.Fatalf("changed by encoding (-before +after):\n%s", diff)
	}
	settled, err := k.encode(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encoded, settled) {
		t.Fatalf("encoded to %x first, to %x then", encoded, settled)
	}
}

// settle gives all timestamps of a message the form that we write: present, and with the nanoseconds within a second.
func settle(m protoreflect.Message) {
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
