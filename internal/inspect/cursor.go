package inspect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Cursor is a position between two tasks of a walk, from which a later walk can continue, also in
// another process.
type Cursor struct {
	Of uint64 `json:"o"` // a hash of queue, state, group and direction

	// For sorted sets: the last entry before the position.
	Group []byte `json:"g,omitempty"`
	Score string `json:"s,omitempty"`
	ID    []byte `json:"i,omitempty"`

	// For lists, whose entries have no fixed position: the index, the length of the list, hashes of
	// the neighboring entries, and the number of entries left to scan.
	Index  int      `json:"n,omitempty"`
	Len    int      `json:"l,omitempty"`
	Left   int      `json:"m,omitempty"`
	Before []uint64 `json:"b,omitempty"`
	After  []uint64 `json:"a,omitempty"`
}

// anchors is the number of IDs on either side that a list cursor stores. It is lost if all of them
// are gone.
const anchors = 8

// ErrCursor means that a cursor is malformed, or belongs to another queue, state, group or
// direction.
var ErrCursor = errors.New("invalid cursor for these tasks")

// String encodes the cursor for ParseCursor.
func (p *Cursor) String() string {
	text, _ := json.Marshal(p) // cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor decodes a cursor from an untrusted source.
func ParseCursor(text string) (*Cursor, error) {
	p := &Cursor{}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, p)
	}
	if err == nil && p.Score != "" {
		_, err = strconv.ParseFloat(p.Score, 64)
	}
	const most = 1 << 40 // far beyond the length of any list
	if err != nil || p.Index < 0 || p.Index > most || p.Len < 0 || p.Len > most || p.Left < 0 || p.Left > most || len(p.Before) > anchors || len(p.After) > anchors {
		return nil, ErrCursor
	}
	return p, nil
}

// walkHash identifies the walks that can use a cursor.
func walkHash(queue string, state wire.State, group string, reverse bool) uint64 {
	return hashOf(strconv.Quote(queue) + state.String() + strconv.Quote(group) + strconv.FormatBool(reverse))
}

// hashOf returns the same hash in every process, unlike seen.
func hashOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// Cursor returns the position behind a task of the last call of Next, or behind all scanned entries
// if t is nil, and whether there are more.
func (w *Walk) Cursor(t *TaskInfo) (p *Cursor, more bool) {
	p, more = w.position(t)
	p.Of = w.of
	return p, more
}

func (w *sortedWalk) from(p *Cursor) { w.score, w.id = p.Score, string(p.ID) }

func (w *sortedWalk) position(t *TaskInfo) (*Cursor, bool) {
	if t == nil || t.ID == w.id {
		return &Cursor{Score: w.score, ID: []byte(w.id)}, !w.end
	}
	return &Cursor{Score: t.score, ID: []byte(t.ID)}, true
}

func (w *groupWalk) from(p *Cursor) {
	if p.Score != "" {
		w.resume = p
	}
}

func (w *groupWalk) position(t *TaskInfo) (*Cursor, bool) {
	if w.last == nil {
		return &Cursor{}, len(w.names) > 0
	}
	p, more := w.last.position(t)
	p.Group = []byte(w.last.group)
	return p, more || len(w.names) > 0
}

func (w *listWalk) from(p *Cursor) { w.resume, w.whole, w.left = p, false, p.Left }

// position returns the cursor by its neighbors in the last window.
func (w *listWalk) position(t *TaskInfo) (*Cursor, bool) {
	id := w.last
	if t != nil {
		id = t.ID
	}
	at := slices.IndexFunc(w.window, func(e entry) bool { return e.id == id }) + 1
	return w.cursorAt(at), !w.end || at < len(w.window)
}

// cursorAt returns the cursor before an entry of the window.
func (w *listWalk) cursorAt(at int) *Cursor {
	p := &Cursor{Index: w.base + at, Len: w.length, Left: w.left}
	for _, e := range w.window[max(0, at-anchors):at] {
		p.Before = append(p.Before, hashOf(e.mark))
	}
	for _, e := range w.window[at:min(len(w.window), at+anchors)] {
		p.After = append(p.After, hashOf(e.mark))
	}
	return p
}

// maxSearch is the number of windows read to find a cursor in a list.
const maxSearch = 40

// find loads the window with a cursor, and returns the index of the first entry after it. Pushes
// move it away from the left end, fetches towards the right one: the search starts at its index as
// if only one of these had happened.
func (w *listWalk) find(ctx context.Context, p *Cursor) (at int, err error) {
	read := make(map[int]bool)
	for n := range maxSearch {
		guess := p.Index + n/2*listWindow
		switch {
		case n == 1:
			guess = p.Index + w.length - p.Len
		case n%2 == 1:
			guess = p.Index - n/2*listWindow
		}
		base := max(0, guess-listOverlap)
		if read[base] || n > 0 && base >= w.length {
			continue
		}
		read[base] = true
		if err := w.load(ctx, base); err != nil {
			return 0, err
		}
		if at, ok := w.locate(p); ok {
			return at, nil
		}
	}
	lost := p.Index
	if w.whole || w.side == "right" {
		lost = 0
	}
	return 0, w.load(ctx, lost)
}

// load reads a window.
func (w *listWalk) load(ctx context.Context, base int) error {
	c := script.NewCall(listWindowScript, 1+5).Key(w.key).Arg(w.q.TaskPrefix, w.field, w.side, base, listWindow)
	w.b.Run(ctx, c)
	r := c.Read()
	length := int(r.Int())
	window := make([]entry, 0, r.Len()/2)
	for r.More() {
		id := r.Text()
		window = append(window, entry{id, id + "\x00" + r.Text()})
	}
	if err := r.Err(); err != nil {
		return w.b.explain(ctx, w.q, err)
	}
	w.window, w.base, w.length = window, base, length
	if w.left == 0 {
		w.left = length + maxMore
	}
	return nil
}

// locate returns the index in the window of the first entry after a cursor: the one behind the
// nearest known entry before it, or the nearest known entry after it. It does not rely on an entry
// at the edge of the window if a neighbor closer to the cursor may be beyond the edge. A walk that
// knows all entries before the cursor can continue in any window with one of them.
func (w *listWalk) locate(p *Cursor) (at int, ok bool) {
	if w.whole {
		return 0, w.base == 0 || slices.ContainsFunc(w.window, func(e entry) bool { return w.seen.has(e.mark) })
	}
	last, places := len(w.window)-1, make(map[uint64]int, len(w.window))
	for i, e := range w.window {
		places[hashOf(e.mark)] = i
	}
	for k, hash := range slices.Backward(p.Before) {
		if i, ok := places[hash]; ok {
			beyond := i == last && len(w.window) == listWindow && k < len(p.Before)-1
			return i + 1, !beyond
		}
	}
	for k, hash := range p.After {
		if i, ok := places[hash]; ok {
			beyond := i == 0 && w.base > 0 && k > 0
			return i, !beyond
		}
	}
	return 0, false
}
