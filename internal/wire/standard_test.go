package wire_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/timestamppb" // registers the Timestamp that the schema imports
	"pgregory.net/rapid"
)

// Our encoding equals that of the standard encoder, byte for byte, and each side decodes the
// other's.
func TestEqualsStandardEncoding(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				msg := k.any.Draw(t, "message")
				std := standard(k, msg)

				theirs, err := proto.MarshalOptions{Deterministic: true}.Marshal(std)
				if err != nil {
					t.Fatal(err)
				}
				ours, err := k.encode(msg)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(ours, theirs) {
					t.Errorf("encoded:\n    ours %x\nstandard %x", ours, theirs)
				}

				read := dynamicpb.NewMessage(schema.Messages().ByName(protoreflect.Name(k.name)))
				if err := proto.Unmarshal(ours, read); err != nil {
					t.Fatalf("the standard decoder rejects our encoding: %v", err)
				}
				if !proto.Equal(read, std) {
					t.Errorf("the standard decoder returns %v, want %v", read, std)
				}
				decoded, err := k.decode(theirs)
				if err != nil {
					t.Fatalf("the standard encoding is rejected: %v", err)
				}
				if diff := cmp.Diff(msg, decoded); diff != "" {
					t.Errorf("the standard encoding is decoded to (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// standard returns msg as a message of the standard implementation.
func standard(k kind, msg any) *dynamicpb.Message {
	d := dynamicpb.NewMessage(schema.Messages().ByName(protoreflect.Name(k.name)))
	values := k.values(msg)
	fields := d.Descriptor().Fields()
	if len(values) != fields.Len() {
		panic(fmt.Sprintf("%s: %d values for %d fields", k.name, len(values), fields.Len()))
	}
	for i := range fields.Len() {
		setStandard(d, fields.Get(i), values[string(fields.Get(i).Name())])
	}
	return d
}

func setStandard(d *dynamicpb.Message, fd protoreflect.FieldDescriptor, value any) {
	switch v := value.(type) {
	case int: // an int32 in the schema
		d.Set(fd, protoreflect.ValueOfInt32(int32(v)))
	case time.Time:
		setTimestamp(d.Mutable(fd).Message(), v)
	case []string:
		for _, s := range v {
			d.Mutable(fd).List().Append(protoreflect.ValueOfString(s))
		}
	case map[string]string:
		for key, s := range v {
			d.Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(s))
		}
	case map[string]int:
		for key, n := range v {
			d.Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfInt32(int32(n)))
		}
	default:
		d.Set(fd, protoreflect.ValueOf(v))
	}
}

func setTimestamp(m protoreflect.Message, t time.Time) {
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(t.Unix()))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
}

// schema is the protobuf schema of the wire format.
var schema = buildSchema()

func buildSchema() protoreflect.FileDescriptor {
	const (
		text      = descriptorpb.FieldDescriptorProto_TYPE_STRING
		raw       = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		int32s    = descriptorpb.FieldDescriptorProto_TYPE_INT32
		int64s    = descriptorpb.FieldDescriptorProto_TYPE_INT64
		boolean   = descriptorpb.FieldDescriptorProto_TYPE_BOOL
		timestamp = ".google.protobuf.Timestamp"
	)
	file := &descriptorpb.FileDescriptorProto{
		Name:       proto.String("asynq.proto"),
		Package:    proto.String("asynq"),
		Syntax:     proto.String("proto3"),
		Dependency: []string{"google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			messageType("TaskMessage",
				scalar("type", 1, text), scalar("payload", 2, raw), scalar("id", 3, text), scalar("queue", 4, text),
				scalar("retry", 5, int32s), scalar("retried", 6, int32s), scalar("error_msg", 7, text),
				scalar("timeout", 8, int64s), scalar("deadline", 9, int64s), scalar("unique_key", 10, text),
				scalar("last_failed_at", 11, int64s), scalar("retention", 12, int64s), scalar("completed_at", 13, int64s),
				scalar("group_key", 14, text), repeated(embedded("headers", 15, ".asynq.TaskMessage.HeadersEntry"))),
			messageType("ServerInfo",
				scalar("host", 1, text), scalar("pid", 2, int32s), scalar("server_id", 3, text),
				scalar("concurrency", 4, int32s), repeated(embedded("queues", 5, ".asynq.ServerInfo.QueuesEntry")),
				scalar("strict_priority", 6, boolean), scalar("status", 7, text), embedded("start_time", 8, timestamp),
				scalar("active_worker_count", 9, int32s)),
			messageType("WorkerInfo",
				scalar("host", 1, text), scalar("pid", 2, int32s), scalar("server_id", 3, text), scalar("task_id", 4, text),
				scalar("task_type", 5, text), scalar("task_payload", 6, raw), scalar("queue", 7, text),
				embedded("start_time", 8, timestamp), embedded("deadline", 9, timestamp)),
			messageType("SchedulerEntry",
				scalar("id", 1, text), scalar("spec", 2, text), scalar("task_type", 3, text), scalar("task_payload", 4, raw),
				repeated(scalar("enqueue_options", 5, text)), embedded("next_enqueue_time", 6, timestamp),
				embedded("prev_enqueue_time", 7, timestamp)),
			messageType("SchedulerEnqueueEvent",
				scalar("task_id", 1, text), embedded("enqueue_time", 2, timestamp)),
		},
	}
	file.MessageType[0].NestedType = append(file.MessageType[0].NestedType, mapEntry("HeadersEntry", text))
	file.MessageType[1].NestedType = append(file.MessageType[1].NestedType, mapEntry("QueuesEntry", int32s))
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return fd
}

func messageType(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

func mapEntry(name string, value descriptorpb.FieldDescriptorProto_Type) *descriptorpb.DescriptorProto {
	m := messageType(name, scalar("key", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), scalar("value", 2, value))
	m.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	return m
}

func scalar(name string, num int32, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: &name, Number: &num, Type: &typ, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

func embedded(name string, num int32, message string) *descriptorpb.FieldDescriptorProto {
	f := scalar(name, num, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	f.TypeName = &message
	return f
}

func repeated(f *descriptorpb.FieldDescriptorProto) *descriptorpb.FieldDescriptorProto {
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}
