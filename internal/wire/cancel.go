package wire

import "strings"

// CancelOutcome is the outcome of a canceled task whose handler then returns an error.
type CancelOutcome int32

// The outcomes of a canceled task.
const (
	CancelRetry   CancelOutcome = iota // regardless of its remaining retries
	CancelArchive                      // no further retry
	CancelDelete
)

// A message with an outcome other than CancelRetry begins with a byte that task IDs never contain:
// other libraries, and old processes of this one, read the whole message as the ID of an unknown
// task.
var cancelPrefixes = [...]string{CancelArchive: "\x00archive\x00", CancelDelete: "\x00delete\x00"}

// CancelMessage returns the message that cancels a task. For CancelRetry it is the ID.
func CancelMessage(id string, outcome CancelOutcome) string { return cancelPrefixes[outcome] + id }

// ParseCancel is the inverse of CancelMessage. It accepts any text.
func ParseCancel(message string) (id string, outcome CancelOutcome) {
	for _, outcome := range []CancelOutcome{CancelArchive, CancelDelete} {
		if id, ok := strings.CutPrefix(message, cancelPrefixes[outcome]); ok {
			return id, outcome
		}
	}
	return message, CancelRetry
}
