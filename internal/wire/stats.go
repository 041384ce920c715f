package wire

import (
	"strconv"
	"strings"
	"time"
)

// How long statistics over time are kept.
const (
	StatsMinutesTTL = 49 * time.Hour
	StatsHoursTTL   = 31 * 24 * time.Hour
)

// The limits of the fields of their hashes. Beyond these, statistics count as those of other types
// or kinds.
const (
	MaxStatsMinutes = 6100 // 100 types and those of all in every minute
	MaxStatsHours   = 2500
)

// StatsMinutes is the HASH of the statistics of each minute of the UTC hour of t, by StatsField. An
// extension; it has a TTL.
func (q Queue) StatsMinutes(t time.Time) string { return q.prefix + "stats:m:" + hour(t) }

// StatsHours is the HASH of the statistics of each hour of the UTC day of t, by StatsField. An
// extension; it has a TTL.
func (q Queue) StatsHours(t time.Time) string { return q.prefix + "stats:h:" + day(t) }

// ErrorMinutes is the HASH of the errors of each minute of the UTC hour of t: their numbers by
// ErrorField, and texts by ErrorTextField. An extension; it has a TTL.
func (q Queue) ErrorMinutes(t time.Time) string { return q.prefix + "errors:m:" + hour(t) }

// ErrorHours is ErrorMinutes of each hour of the UTC day of t. An extension; it has a TTL.
func (q Queue) ErrorHours(t time.Time) string { return q.prefix + "errors:h:" + day(t) }

func hour(t time.Time) string { return t.UTC().Format("2006-01-02T15") }

// StatsField is the field of a type in the statistics of a minute of the hour, or an hour of the
// day. The empty type stands for all types that are not counted by themselves.
func StatsField(at int, typename string) string { return QueueStatsField(at) + ":" + typename }

// QueueStatsField is the field of the statistics of the queue.
func QueueStatsField(at int) string { return strconv.Itoa(at) }

// ParseStatsField returns the parts of a StatsField. all is true for a QueueStatsField.
func ParseStatsField(field string) (at int, typename string, all, ok bool) {
	number, typename, found := strings.Cut(field, ":")
	at, err := strconv.Atoi(number)
	return at, typename, !found, err == nil && at >= 0
}

// StatsSenderField is the field with the number of the last call of a sender in StatsMinutes.
func StatsSenderField(sender string) string { return "~" + sender }

// ErrorField is the field of a kind of error of a type. The empty ID stands for all kinds that are
// not counted by themselves.
func ErrorField(at int, kindID, typename string) string { return StatsField(at, kindID+":"+typename) }

// ParseErrorField returns the parts of an ErrorField.
func ParseErrorField(field string) (at int, kindID, typename string, ok bool) {
	at, rest, all, ok := ParseStatsField(field)
	kindID, typename, found := strings.Cut(rest, ":")
	return at, kindID, typename, ok && !all && found
}

// ErrorTextField is the field of the text of a kind of error.
func ErrorTextField(kindID string) string { return "#" + kindID }

// ParseErrorTextField returns the ID of an ErrorTextField.
func ParseErrorTextField(field string) (kindID string, ok bool) { return strings.CutPrefix(field, "#") }
