package wire

import (
	"encoding/json"
	"time"
)

// Mute is a value of HealthMutes as a JSON object: a cause that is muted.
type Mute struct {
	At    int64  `json:"at"`              // when it was muted, in Unix milliseconds
	Until int64  `json:"until,omitempty"` // Unix milliseconds; 0: until the cause is gone
	By    string `json:"by,omitempty"`
	Note  string `json:"note,omitempty"`
}

// AcknowledgedFor is how long a mute without an end lasts at most.
const AcknowledgedFor = 30 * 24 * time.Hour

// End returns when the mute ends at the latest.
func (m Mute) End() time.Time {
	if m.Until == 0 {
		return time.UnixMilli(m.At).Add(AcknowledgedFor)
	}
	return time.UnixMilli(m.Until)
}

// Encode returns the value.
func (m Mute) Encode() []byte { return encodeJSON(m) }

// DecodeMute decodes a value.
func DecodeMute(encoded []byte) (m Mute, err error) {
	err = json.Unmarshal(encoded, &m)
	return m, err
}
