package wire

import "strings"

// Fate is what becomes of a task that is canceled, if its handler then ends with an error.
type Fate int32

// The fates of a canceled task.
const (
	FateRetry   Fate = iota // whatever its retries say
	FateArchive             // it is not tried again
	FateDelete
)

// What is published of a fate begins with a byte that is in nobody's task IDs: other libraries, and old processes of this one, take all
// of it for the ID of a task that they do not run.
const (
	archivePrefix = "\x00archive\x00"
	deletePrefix  = "\x00delete\x00"
)

// CancelMessage is what is published to cancel a task. For FateRetry it is the ID.
func CancelMessage(id string, fate Fate) string {
	switch fate {
	case FateArchive:
		return archivePrefix + id
	case FateDelete:
		return deletePrefix + id
	default:
		return id
	}
}

// ParseCancel is the inverse of CancelMessage. There is nothing that it does not understand.
func ParseCancel(message string) (id string, fate Fate) {
	if id, ok := strings.CutPrefix(message, archivePrefix); ok {
		return id, FateArchive
	}
	if id, ok := strings.CutPrefix(message, deletePrefix); ok {
		return id, FateDelete
	}
	return message, FateRetry
}
