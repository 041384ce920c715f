package wire

import (
	"encoding/json"
	"fmt"
)

// SchedulerCreation is what a scheduler entry creates its tasks from. SchedulerEntry lacks some of
// these fields, and must not get more, so it is stored separately. Only this library reads it.
type SchedulerCreation struct {
	Type    string            `json:"type"`
	Payload []byte            `json:"payload"` // null if nil, which differs from empty
	Headers map[string]string `json:"headers,omitempty"`
	Options []string          `json:"options,omitempty"` // each as Go source, times in full precision

	// Pause is the field of the entry in SchedulerPauses. It is the same after a restart of the
	// scheduler, unlike the ID of an entry without a group.
	Pause string `json:"pause,omitempty"`
}

// Encode returns c in JSON.
func (c *SchedulerCreation) Encode() ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("wire: encode SchedulerCreation: %w", err)
	}
	return b, nil
}

// DecodeSchedulerCreation decodes a SchedulerCreation.
func DecodeSchedulerCreation(b []byte) (*SchedulerCreation, error) {
	var c SchedulerCreation
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("wire: decode SchedulerCreation: %w", err)
	}
	return &c, nil
}
