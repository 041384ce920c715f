package node

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// hugeResult is how many bytes a huge result has.
const hugeResult = 1 << 20

// orders is what a payload tells a handler.
type orders struct {
	ID      string   `json:"id,omitempty"` // of a task that is to be aggregated
	Plan    []string `json:"plan"`
	WorkMS  int      `json:"work_ms,omitempty"`
	Members []string `json:"members,omitempty"`
	Salt    string   `json:"salt,omitempty"` // tells unique tasks from each other
}

// encode makes a payload. What follows the first line is there to be carried: bytes that are no text.
func (o *orders) encode() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers cannot fail
	}
	return append(text, "\n\x00\xff\xfe"...)
}

func decode(payload []byte) (*orders, error) {
	text, _, _ := bytes.Cut(payload, []byte("\n"))
	o := new(orders)
	if err := json.Unmarshal(text, o); err != nil {
		return &orders{}, fmt.Errorf("not a payload of this run: %w", err)
	}
	return o, nil
}

// step is what the attempt after so many retries does: the last step stands for all after it.
func (o *orders) step(retried int) string {
	if len(o.Plan) == 0 {
		return ""
	}
	return o.Plan[min(retried, len(o.Plan)-1)]
}
