package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// partitionEscapes escapes what a value of an Ext may not contain. The scripts that read the key
// decode it.
var (
	partitionEscapes   = strings.NewReplacer("%", "%25", ";", "%3B")
	partitionUnescapes = strings.NewReplacer("%25", "%", "%3B", ";")
)

// PartitionKey returns the partition key of the task, "" if it has none.
func (m *TaskMessage) PartitionKey() string {
	if len(m.Headers) == 0 {
		return ""
	}
	return partitionUnescapes.Replace(m.Ext().Get(ExtPartition))
}

// SetPartitionKey sets the partition key of the task; "" means none. The key must not contain
// control characters.
func (m *TaskMessage) SetPartitionKey(key string) {
	m.SetExt(m.Ext().Set(ExtPartition, partitionEscapes.Replace(key)))
}

// Partition returns the key of the partition that the task belongs to: its partition key or, with
// byType, its type up to the first NUL.
func (m *TaskMessage) Partition(byType bool) string {
	if !byType {
		return m.PartitionKey()
	}
	key, _, _ := strings.Cut(m.Type, "\x00")
	return key
}

// HeldPartition returns the partition of a held task, given the field "held" of its hash: the key,
// a NUL byte, and a sequence number of 16 digits.
func HeldPartition(field string) (key string, ok bool) {
	i := len(field) - 17
	if i < 0 || field[i] != 0 {
		return "", false
	}
	return field[:i], true
}

// PartitionLimits are the limits and the weight of a partition.
type PartitionLimits struct {
	Concurrency int           // maximum number of active tasks; 0: unlimited
	Events      int           // of the rate: starts in each Per; 0: no rate
	Per         time.Duration // in whole microseconds
	Burst       int           // starts after an idle period
	Weight      float64       // share of the queue
	Paused      bool
}

// The bits of what settings of a single partition set.
const (
	SetsConcurrency = 1 << iota
	SetsRate
	SetsWeight
)

// Encode returns the limits as the scripts read them. sets selects those that settings of a single
// partition set; the others are those of the queue.
func (l PartitionLimits) Encode(sets int) string {
	var b strings.Builder
	if sets&SetsConcurrency != 0 {
		fmt.Fprintf(&b, "concurrency=%d ", l.Concurrency)
	}
	if sets&SetsRate != 0 {
		interval := 0.0
		if l.Events > 0 {
			interval = float64(l.Per.Microseconds()) / float64(l.Events)
		}
		fmt.Fprintf(&b, "interval=%s burst=%d events=%d per=%d ",
			strconv.FormatFloat(interval, 'f', -1, 64), max(l.Burst, 1), l.Events, l.Per.Microseconds())
	}
	if sets&SetsWeight != 0 {
		fmt.Fprintf(&b, "weight=%s ", strconv.FormatFloat(l.Weight, 'f', -1, 64))
	}
	if l.Paused {
		b.WriteString("paused=1 ")
	}
	return strings.TrimSuffix(b.String(), " ")
}

// ParsePartitionLimits decodes the result of Encode. It ignores values that it does not know.
func ParsePartitionLimits(text string) (l PartitionLimits, sets int) {
	for token := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(token, "=")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "concurrency":
			l.Concurrency, sets = int(number), sets|SetsConcurrency
		case "events":
			l.Events, sets = int(number), sets|SetsRate
		case "per":
			l.Per = time.Duration(number) * time.Microsecond
		case "burst":
			l.Burst = int(number)
		case "weight":
			l.Weight, sets = number, sets|SetsWeight
		case "paused":
			l.Paused = number == 1
		}
	}
	return l, sets
}

// ServerPartitions is what a server publishes about the partitions of its queues, by queue.
type ServerPartitions map[string]QueuePartitions

// QueuePartitions is how a server partitions a queue.
type QueuePartitions struct {
	Limits  string `json:"limits"` // of partitions without their own, see PartitionLimits
	Ordered bool   `json:"ordered,omitempty"`
	ByType  bool   `json:"by_type,omitempty"`
}

// Encode returns p in JSON.
func (p ServerPartitions) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("wire: encode ServerPartitions: %w", err)
	}
	return b, nil
}

// DecodeServerPartitions decodes ServerPartitions.
func DecodeServerPartitions(text string) (p ServerPartitions, err error) {
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("wire: decode ServerPartitions: %w", err)
	}
	return p, nil
}
