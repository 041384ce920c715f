package ui

import (
	"bytes"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// liveHeader is the header of a request that updates an open page. Its value is the version of the
// content that the page has.
const liveHeader = "X-Live"

// versions is how many versions of pages the server remembers. A page whose version it does not
// remember gets the whole content.
const versions = 1024

// part is an element that a template marks with data-part before its id. An update has only a
// placeholder for a part that has not changed. "data-part=still" marks parts that scripts maintain:
// they never change.
type part struct {
	start, end int
	id         []byte
	tag        []byte
	sum        uint64
}

// partStart matches the start of a part. Texts of users cannot: their < and quotes are escaped.
var partStart = regexp.MustCompile(`<([a-z]+) data-part(="still")? id="([^"]+)"[^>]*>`)

// contents remembers the sums of the parts of recent versions. It is safe for concurrent use.
type contents struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[string][]uint64 // by version, sorted
	order []string            // the versions, oldest first
}

func newContents() *contents {
	return &contents{seed: maphash.MakeSeed(), known: make(map[string][]uint64)}
}

// deliver returns a rendered page, or its content for a live request, with the version of its
// content. Parts that the version of the request has are placeholders. It returns false if the
// content has not changed since that version.
func (c *contents) deliver(page []byte, version string) ([]byte, bool) {
	begin, end := bytes.Index(page, []byte(`<main id="main"`)), bytes.LastIndex(page, []byte("</main>"))
	if begin < 0 || end < begin {
		return page, true
	}
	content := page[begin:end]
	parts := c.partsOf(content)
	var whole maphash.Hash
	whole.SetSeed(c.seed)
	at, sums := 0, make([]uint64, 0, len(parts))
	for _, p := range parts {
		stable(&whole, content[at:p.start])
		_, _ = whole.WriteString(strconv.FormatUint(p.sum, 36) + ",") // never fails
		at, sums = p.end, append(sums, p.sum)
	}
	stable(&whole, content[at:])
	now := strconv.FormatUint(whole.Sum64(), 36)
	if now == version {
		return nil, false
	}
	slices.Sort(sums)
	had := c.swap(version, now, sums)
	out := make([]byte, 0, len(page))
	out = append(out, page[:begin]...)
	out = append(out, `<main data-version="`+now+`"`...)
	at = len(`<main`)
	for _, p := range parts {
		if _, same := slices.BinarySearch(had, p.sum); same {
			out = append(out, content[at:p.start]...)
			out = append(out, '<')
			out = append(append(append(out, p.tag...), ` data-same id="`...), p.id...)
			out = append(append(append(out, `"></`...), p.tag...), '>')
			at = p.end
		}
	}
	out = append(out, content[at:]...)
	return append(out, page[end:]...), true
}

// swap stores the sums of a version, and returns those of another one.
func (c *contents) swap(old, now string, sums []uint64) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.known[old]
	if _, ok := c.known[now]; !ok {
		if len(c.order) == versions {
			delete(c.known, c.order[0])
			c.order = c.order[1:]
		}
		c.known[now] = sums
		c.order = append(c.order, now)
	}
	return had
}

// partsOf returns the outermost parts of the content, except those that share an ID.
func (c *contents) partsOf(content []byte) []part {
	var parts []part
	count := map[string]int{}
	for at := 0; ; {
		m := partStart.FindSubmatchIndex(content[at:])
		if m == nil {
			break
		}
		p := part{start: at + m[0], tag: content[at+m[2] : at+m[3]], id: content[at+m[6] : at+m[7]]}
		p.end = endOf(content, p.start, p.tag)
		at += m[1]
		if p.end < 0 {
			continue
		}
		var h maphash.Hash
		h.SetSeed(c.seed)
		if m[4] >= 0 {
			_, _ = h.Write(content[p.start:at])
		} else {
			stable(&h, content[p.start:p.end])
		}
		p.sum = h.Sum64()
		parts = append(parts, p)
		count[string(p.id)]++
		at = p.end
	}
	return slices.DeleteFunc(parts, func(p part) bool { return count[string(p.id)] > 1 })
}

// endOf returns the index behind the end of the element at start; -1 if it has no end.
func endOf(content []byte, start int, tag []byte) int {
	begin, end := append([]byte("<"), tag...), append(append([]byte("</"), tag...), '>')
	depth := 0
	for at := start; ; {
		last := bytes.Index(content[at:], end)
		if last < 0 {
			return -1
		}
		depth += starts(content[at:at+last], begin) - 1
		at += last + len(end)
		if depth == 0 {
			return at
		}
	}
}

// starts counts the elements that begin in a text: "<tr" begins "<tr>" but not "<track>".
func starts(text, begin []byte) int {
	n := 0
	for {
		i := bytes.Index(text, begin)
		if i < 0 {
			return n
		}
		text = text[i+len(begin):]
		if len(text) > 0 && (text[0] == ' ' || text[0] == '>' || text[0] == '\n') {
			n++
		}
	}
}

// stable adds content to a hash, without the texts of times: they change every second, and scripts
// keep them current.
func stable(h *maphash.Hash, content []byte) {
	for {
		i := bytes.Index(content, []byte("<time datetime="))
		if i < 0 {
			_, _ = h.Write(content)
			return
		}
		head, end := bytes.IndexByte(content[i:], ' '), bytes.Index(content[i:], []byte("</time>"))
		next := bytes.IndexByte(content[i+head+1:], ' ')
		if end < 0 || next < 0 || next > end {
			_, _ = h.Write(content)
			return
		}
		_, _ = h.Write(content[:i+head+1+next])
		content = content[i+end:]
	}
}
