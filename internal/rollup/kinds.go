package rollup

import (
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The limits of the work for kinds of errors. Other errors are counted without a kind.
const (
	maxKinds  = 1000 // new texts in a second, and texts whose kind is remembered
	maxText   = 4096 // bytes of a text that are read
	maxKindOf = 400  // bytes of a kind
)

// kinds finds the kinds of texts. To find one takes microseconds, so it remembers them.
type kinds struct {
	of func(text string) string

	mu     sync.Mutex
	known  map[string]string
	second int64
	found  int // in this second
}

func (k *kinds) lookUp(text string, now time.Time) string {
	text = text[:min(len(text), maxText)]
	k.mu.Lock()
	kind, ok := k.known[text]
	if ok {
		k.mu.Unlock()
		return kind
	}
	if second := now.Unix(); second != k.second {
		k.second, k.found = second, 0
	}
	k.found++
	found := k.found
	k.mu.Unlock()
	if found > maxKinds {
		return ""
	}
	kind = k.of(text)
	kind = strings.ToValidUTF8(kind[:min(len(kind), maxKindOf)], "")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxKinds {
		k.known = make(map[string]string)
	}
	k.known[text] = kind
	return kind
}

// errorName identifies a kind of error of a type. Both are empty for all others.
type errorName struct{ kind, typename string }

type errorCount struct{ minute, n int64 }

// countError counts an error. The caller holds the lock.
func (q *queue) countError(kind, typename string, minute int64) {
	name := errorName{kind, typename}
	if kind == "" || len(typename) > maxTypeName {
		name = errorName{}
	}
	c := q.errors[name]
	if c == nil && len(q.errors) >= MaxKinds {
		name = errorName{}
		c = q.errors[name]
	}
	if c == nil {
		c = &errorCount{minute: minute}
		q.errors[name] = c
	}
	if c.minute != minute {
		q.freezeError(name, c)
		c.minute, c.n = minute, 0
	}
	c.n++
}

func (q *queue) freezeError(name errorName, c *errorCount) {
	if c.n > 0 {
		q.add(Entry{Minute: c.minute, Table: ErrorTable, Type: name.typename, Kind: name.kind, Count: c.n}, 0)
	}
}

// KindID returns the ID of a kind of errors, "" for that of all others.
func KindID(kind string) string {
	if kind == "" {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind)) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}
