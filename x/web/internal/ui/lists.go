package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// surveyNote describes the sample that the counts of a page are based on.
type surveyNote struct {
	survey.Extent
	None    bool // nothing was scanned yet
	Whole   bool
	Partial bool // not all tasks were scanned
	Broken  []survey.Broken
	Error   string
}

// surveyed returns the result of the last survey of tasks, never nil. Until the first survey has
// scanned tasks or failed, the error is that of the poller.
func (u *UI) surveyed(ctx context.Context) (*survey.Result, error) {
	result, err := u.Survey.Tasks(ctx)
	if err == nil && result.At.IsZero() {
		err = u.Poller.Latest().Err
	}
	return result, err
}

func noteOf(r *survey.Result, err error, states ...asynq.TaskState) surveyNote {
	n := surveyNote{Extent: r.Of(states...), None: r.At.IsZero(), Whole: r.Whole, Broken: r.Broken}
	n.Partial = n.Cut || !n.Whole && n.Scanned < n.Total
	if err != nil {
		n.Error = sentence(show.RedisError(err))
	}
	return n
}

// heading is a column heading that may sort its table.
type heading struct {
	Name, Class string
	URL         string // empty: not sortable
	Sorted      string // descending, ascending or empty
}

// sorting is an order of rows.
type sorting[R any] struct {
	Key, Name, Class string
	Compare          func(a, b R) int
}

// sortBy sorts rows as the parameters sort and up specify. The default is largest first.
func sortBy[R any](u *UI, r *http.Request, rows []R, ways []sorting[R], first string) ([]heading, error) {
	key, up := r.URL.Query().Get("sort"), r.URL.Query().Get("up") != ""
	if !slices.ContainsFunc(ways, func(w sorting[R]) bool { return w.Key == key && w.Compare != nil }) {
		key, up = first, false
	}
	columns := make([]heading, len(ways))
	for n, way := range ways {
		columns[n] = heading{Name: way.Name, Class: way.Class}
		if way.Compare == nil {
			continue
		}
		turn := ""
		if way.Key == key {
			columns[n].Sorted = "descending"
			slices.SortStableFunc(rows, func(a, b R) int {
				if up {
					return way.Compare(a, b)
				}
				return way.Compare(b, a)
			})
			if up {
				columns[n].Sorted = "ascending"
			} else {
				turn = "1"
			}
		}
		columns[n].URL = u.with(r, "sort", way.Key, "up", turn, "page", "")
	}
	return columns, nil
}

// with returns the URL of the current page with other parameters. Empty parameters are removed.
func (u *UI) with(r *http.Request, pairs ...string) string {
	q := url.Values{}
	for name, values := range r.URL.Query() {
		if len(values) > 0 && values[0] != "" {
			q.Set(name, values[0])
		}
	}
	for n := 0; n < len(pairs); n += 2 {
		q.Del(pairs[n])
		if pairs[n+1] != "" {
			q.Set(pairs[n], pairs[n+1])
		}
	}
	target := u.Root + r.URL.EscapedPath()
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	return target
}

// pager links the pages of a list of known length.
type pager struct {
	From, To, Of   int // rows, from 1
	Previous, Next string
}

// pageOf returns the rows of the page that the parameter page selects.
func pageOf[R any](u *UI, r *http.Request, rows []R, size int) ([]R, pager, error) {
	return pageBy(u, r, "page", rows, size)
}

// pageBy returns the rows of the page that a parameter selects.
func pageBy[R any](u *UI, r *http.Request, name string, rows []R, size int) ([]R, pager, error) {
	from, err := pageStart(r, name, size)
	if err != nil {
		return nil, pager{}, err
	}
	from = min(from, max(0, (len(rows)-1)/size*size))
	to := min(from+size, len(rows))
	return rows[from:to], u.pager(r, name, from, to, len(rows), size), nil
}

// pageStart returns the number of rows before the page that a parameter selects.
func pageStart(r *http.Request, name string, size int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	page, err := strconv.Atoi(text)
	if err != nil || page < 1 || page > 1_000_000 {
		return 0, invalid("Invalid page %q: pages are numbered from 1.", text)
	}
	return (page - 1) * size, nil
}

// pager returns the links of the page with the rows between from and to.
func (u *UI) pager(r *http.Request, name string, from, to, of, size int) pager {
	p := pager{From: from + 1, To: to, Of: of}
	if from > 0 {
		p.Previous = u.with(r, name, strconv.Itoa(from/size))
	}
	if to < of {
		p.Next = u.with(r, name, strconv.Itoa(from/size+2))
	}
	return p
}

// quoteFilter quotes a text for the filter language.
func quoteFilter(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && n == 1 || unicode.IsControl(r):
			for i := range n {
				b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])+0x100, 16)[1:])
			}
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	b.WriteByte('"')
	return b.String()
}
