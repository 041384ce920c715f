package wire

import (
	"encoding/json"
	"fmt"
)

// SchedulerCreation is all that the task of a scheduler entry is made from. SchedulerEntry has no fields for some of it, and must get
// none; so it is kept beside. Only this library reads it.
type SchedulerCreation struct {
	Type    string            `json:"type"`
	Payload []byte            `json:"payload"` // null if nil: an empty one is another
	Headers map[string]string `json:"headers,omitempty"`
	Options []string          `json:"options,omitempty"` // each as Go source, times with all their digits
}

// Encode returns c as it is kept.
func (c *SchedulerCreation) Encode() ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("wire: encode SchedulerCreation: %w", err)
	}
	return b, nil
}

// DecodeSchedulerCreation reads a SchedulerCreation.
func DecodeSchedulerCreation(b []byte) (*SchedulerCreation, error) {
	var c SchedulerCreation
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("wire: decode SchedulerCreation: %w", err)
	}
	return &c, nil
}
