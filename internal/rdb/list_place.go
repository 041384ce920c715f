package rdb

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Place is between two tasks of a walk. Another walk goes on from there: later, and in another process.
type Place struct {
	Of uint64 `json:"o"` // a hash of queue, state and group

	// Of a sorted set: the last entry before the place.
	Group []byte `json:"g,omitempty"`
	Score string `json:"s,omitempty"`
	ID    []byte `json:"i,omitempty"`

	// Of a list, whose entries have no place of their own: where it was, in a list of what length, and hashes of the IDs next to it.
	Index  int      `json:"n,omitempty"`
	Len    int      `json:"l,omitempty"`
	Before []uint64 `json:"b,omitempty"`
	After  []uint64 `json:"a,omitempty"`
}

// anchors is how many IDs on either side a place in a list remembers: it is lost when all of them have gone.
const anchors = 8

// ErrPlace says that a text is no place of a walk, or one of another queue, state or group.
var ErrPlace = errors.New("this is no place in these tasks")

// String is the place as ParsePlace reads it.
func (p *Place) String() string {
	text, _ := json.Marshal(p) // there is nothing in it that could fail
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParsePlace reads a place. It may come from anybody.
func ParsePlace(text string) (*Place, error) {
	p := &Place{}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, p)
	}
	if err == nil && p.Score != "" {
		_, err = strconv.ParseFloat(p.Score, 64)
	}
	const most = 1 << 40 // far beyond the length of any list
	if err != nil || p.Index < 0 || p.Index > most || p.Len < 0 || p.Len > most || len(p.Before) > anchors || len(p.After) > anchors {
		return nil, ErrPlace
	}
	return p, nil
}

func placeOf(queue string, state wire.State, group string) uint64 {
	return hashOf(strconv.Quote(queue) + state.String() + strconv.Quote(group))
}

// hashOf is the same in every process, unlike the hashes of seen.
func hashOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// WalkFrom starts a walk that can tell its places, at one of them; nil is the beginning.
//
// A task that is in the state from the first of such walks to the last is met exactly once, as by Walk. There is an exception for pending
// and active tasks: where all of eight tasks on either side of the place have gone, or the list has moved by more than 9,000, the walk
// goes on from where the place was, counted from the left. Where tasks only come, or only go, it is found however many they are.
func (b *Broker) WalkFrom(queue string, state wire.State, group string, from *Place) (*Walk, error) {
	w, err := b.Walk(queue, state, group)
	if err != nil {
		return nil, err
	}
	of := placeOf(queue, state, group)
	if from != nil && from.Of != of {
		return nil, ErrPlace
	}
	w.from(from)
	place := w.place
	w.place = func(t *TaskInfo) (*Place, bool) {
		p, more := place(t)
		p.Of = of
		return p, more
	}
	return w, nil
}

// Place tells the place behind a task that the last call of Next has returned, or behind all that it looked at if t is nil; and whether
// there was more behind it. It is for walks of WalkFrom.
func (w *Walk) Place(t *TaskInfo) (p *Place, more bool) { return w.place(t) }

func (w *sortedWalk) from(p *Place) {
	if p != nil {
		w.score, w.id = p.Score, string(p.ID)
	}
}

func (w *sortedWalk) place(t *TaskInfo) (*Place, bool) {
	if t == nil || t.ID == w.id {
		return &Place{Score: w.score, ID: []byte(w.id)}, !w.end
	}
	return &Place{Score: t.score, ID: []byte(t.ID)}, true
}

func (w *groupWalk) from(p *Place) {
	if p != nil && p.Score != "" {
		w.resume, w.score, w.id = string(p.Group), p.Score, string(p.ID)
		w.begun, w.seen = true, newSeen()
	}
}

// skip leaves those groups that come after the place, and the one that it is in.
func (w *groupWalk) skip() {
	slices.Sort(w.names)
	if !w.begun {
		return
	}
	n, found := slices.BinarySearch(w.names, w.resume)
	w.names, w.begun = w.names[n:], found
}

func (w *groupWalk) place(t *TaskInfo) (*Place, bool) {
	if t == nil || t.ID == w.id {
		return &Place{Group: []byte(w.last), Score: w.score, ID: []byte(w.id)}, len(w.names) > 0
	}
	return &Place{Group: []byte(w.last), Score: t.score, ID: []byte(t.ID)}, true
}

func (w *listWalk) from(p *Place) { w.placed, w.resume = true, p }

// place describes the place by its neighbors in the window that was read last.
func (w *listWalk) place(t *TaskInfo) (*Place, bool) {
	id := w.last
	if t != nil {
		id = t.ID
	}
	at := slices.Index(w.window, id) + 1
	return w.placeAt(at), !w.end || at < len(w.window)
}

// placeAt describes the place before an entry of the window.
func (w *listWalk) placeAt(at int) *Place {
	p := &Place{Index: w.base + at, Len: w.length}
	for _, id := range w.window[max(0, at-anchors):at] {
		p.Before = append(p.Before, hashOf(id))
	}
	for _, id := range w.window[at:min(len(w.window), at+anchors)] {
		p.After = append(p.After, hashOf(id))
	}
	return p
}

// maxSearch is how many windows are read to find a place in a list again.
const maxSearch = 40

// find finds the place that the walk is to go on from. What has been added has moved it to the right, and what was removed to the
// left: the search begins where it is if only one of the two has happened.
func (w *listWalk) find(ctx context.Context) error {
	p := w.resume
	read := make(map[int]bool)
	try := func(guess int) (found bool, err error) {
		base := max(0, guess-listOverlap)
		if read[base] || len(read) > 0 && base >= w.length {
			return false, nil
		}
		read[base] = true
		if err := w.load(ctx, base); err != nil {
			return false, err
		}
		at, ok := w.locate(p)
		if ok {
			w.goOn(at)
		}
		return ok, nil
	}
	if found, err := try(p.Index); found || err != nil {
		return err
	}
	if found, err := try(p.Index + w.length - p.Len); found || err != nil {
		return err
	}
	for n := 1; n < maxSearch/2; n++ {
		for _, guess := range []int{p.Index + n*listWindow, p.Index - n*listWindow} {
			if found, err := try(guess); found || err != nil {
				return err
			}
		}
	}
	if err := w.load(ctx, p.Index); err != nil { // the place is lost
		return err
	}
	w.goOn(0)
	return nil
}

// load reads a window.
func (w *listWalk) load(ctx context.Context, base int) error {
	var window *redis.StringSliceCmd
	var length *redis.IntCmd
	_, err := w.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		window = pipe.LRange(ctx, w.key, int64(base), int64(base+listWindow-1))
		if w.placed {
			length = pipe.LLen(ctx, w.key)
		}
		return nil
	})
	if err != nil {
		return w.b.explain(ctx, w.q, fmt.Errorf("rdb: reading a list: %w", err))
	}
	w.window, w.base = window.Val(), base
	if length != nil {
		w.length = int(length.Val())
	}
	return nil
}

// locate says which entry of the window comes after a place: the first of those that came after it, or the one behind the last of those
// that came before it.
func (w *listWalk) locate(p *Place) (at int, ok bool) {
	for i, id := range slices.Backward(w.window) {
		if slices.Contains(p.Before, hashOf(id)) {
			return i + 1, true
		}
	}
	for i, id := range w.window {
		if slices.Contains(p.After, hashOf(id)) {
			return i, true
		}
	}
	return 0, false
}

// goOn takes up the walk at an entry of the window. What is on its left counts as seen.
func (w *listWalk) goOn(at int) {
	for i, id := range w.window {
		if w.seen.add(id) && i >= at {
			w.ids = append(w.ids, id)
		}
	}
	w.end, w.resume = len(w.window) < listWindow, nil
}
