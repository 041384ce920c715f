package wire

import (
	"strconv"
	"strings"
	"time"
)

// Poller has the fields that ServerInfo lacks for a worker that polls for tasks.
type Poller struct {
	Name     string
	LastPoll time.Time // in milliseconds
}

// Encode returns the time of the last poll in Unix milliseconds, a space, and the name.
func (p Poller) Encode() string { return strconv.FormatInt(p.LastPoll.UnixMilli(), 10) + " " + p.Name }

// ParsePoller decodes the result of Encode.
func ParsePoller(text string) (p Poller, ok bool) {
	at, name, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || name == "" {
		return Poller{}, false
	}
	return Poller{Name: name, LastPoll: time.UnixMilli(ms)}, true
}
