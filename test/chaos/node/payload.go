package node

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// hugeResult is the size of a huge result in bytes.
const hugeResult = 1 << 20

// instructions is the content of a payload.
type instructions struct {
	ID      string   `json:"id,omitempty"` // ID of a grouped task
	Plan    []string `json:"plan"`
	WorkMS  int      `json:"work_ms,omitempty"`
	Members []string `json:"members,omitempty"`
	Salt    string   `json:"salt,omitempty"` // distinguishes unique tasks
}

// encode returns a payload. The data after the first line is arbitrary bytes.
func (o *instructions) encode() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot fail: strings and numbers
	}
	return append(text, "\n\x00\xff\xfe"...)
}

func decode(payload []byte) (*instructions, error) {
	text, _, _ := bytes.Cut(payload, []byte("\n"))
	o := new(instructions)
	if err := json.Unmarshal(text, o); err != nil {
		return &instructions{}, fmt.Errorf("not a payload of this run: %w", err)
	}
	return o, nil
}

// step returns the step of the attempt after this number of retries. The last step applies to all
// later ones.
func (o *instructions) step(retried int) string {
	if len(o.Plan) == 0 {
		return ""
	}
	return o.Plan[min(retried, len(o.Plan)-1)]
}
