package wire

import (
	"maps"
	"strconv"
	"strings"
)

// ExtHeader is the header of a message that this library reserves for itself: messages have no
// field for its additions, but other libraries keep headers when they rewrite a message. Tasks that
// users see do not have it.
const ExtHeader = "asynq-ext"

// The keys of an Ext.
const (
	// ExtUnhandledSince is when a server first had no handler for the task, in Unix seconds. It is
	// set while servers return the task.
	ExtUnhandledSince = "unhandled_since"

	// ExtArchived is the number of failed attempts after which the task was archived, which Retried
	// does not count. It is set by servers that keep a log.
	ExtArchived = "archived"

	// ExtExpires is when the task expires, in Unix seconds: no attempt starts then or later.
	ExtExpires = "expires"

	// ExtPartition is the partition key of the task, with % and ; escaped as %25 and %3B.
	ExtPartition = "partition"
)

// Ext is the value of ExtHeader: entries of the form key=value, separated by semicolons, in any
// order. Setting one entry keeps the others, also those that this version does not know. The first
// entry of a key counts.
type Ext string

// Get returns the value of a key, "" if it has none.
func (e Ext) Get(key string) string {
	for entry := range strings.SplitSeq(string(e), ";") {
		if k, value, ok := strings.Cut(entry, "="); ok && k == key {
			return value
		}
	}
	return ""
}

// Set returns e with another value for a key. An empty value removes the key. Neither may contain a
// semicolon, nor the key an equals sign.
func (e Ext) Set(key, value string) Ext {
	var entries []string
	for entry := range strings.SplitSeq(string(e), ";") {
		if k, _, _ := strings.Cut(entry, "="); entry != "" && k != key {
			entries = append(entries, entry)
		}
	}
	if value != "" {
		entries = append(entries, key+"="+value)
	}
	return Ext(strings.Join(entries, ";"))
}

// Ext returns what the message has in ExtHeader.
func (m *TaskMessage) Ext() Ext {
	if len(m.Headers) == 0 {
		return ""
	}
	return Ext(m.Headers[ExtHeader])
}

// Expires returns when the task expires, in Unix seconds; 0 if it does not.
func (m *TaskMessage) Expires() int64 {
	if len(m.Headers) == 0 {
		return 0
	}
	expires, _ := strconv.ParseInt(m.Ext().Get(ExtExpires), 10, 64) // 0 if it is malformed
	return expires
}

// SetExpires sets when the task expires, in Unix seconds; 0 means never.
func (m *TaskMessage) SetExpires(at int64) {
	text := ""
	if at != 0 {
		text = strconv.FormatInt(at, 10)
	}
	m.SetExt(m.Ext().Set(ExtExpires, text))
}

// SetExt replaces what the message has in ExtHeader; "" removes the header. It replaces the map of
// headers, because others may hold the old one.
func (m *TaskMessage) SetExt(e Ext) {
	if m.Ext() == e {
		return
	}
	headers := UserHeaders(m.Headers)
	if e != "" {
		if headers = maps.Clone(headers); headers == nil {
			headers = make(map[string]string, 1)
		}
		headers[ExtHeader] = string(e)
	}
	m.Headers = headers
}

// UserHeaders returns headers without ExtHeader, nil if no others are left. Without ExtHeader, it
// returns the map itself.
func UserHeaders(headers map[string]string) map[string]string {
	if len(headers) == 0 {
		return headers
	}
	if _, ok := headers[ExtHeader]; !ok {
		return headers
	}
	if len(headers) == 1 {
		return nil
	}
	user := maps.Clone(headers)
	delete(user, ExtHeader)
	return user
}
