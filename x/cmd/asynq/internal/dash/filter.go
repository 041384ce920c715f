package dash

import (
	"strconv"
	"strings"

	"github.com/asynq-go/asynq/x/filter"
)

// applyFilter removes the rows that do not match the filter. The fields of the filter are the
// column headings. While the user types an incomplete filter, all rows remain.
func (l *listing) applyFilter(text string, typing bool) {
	f, err := filter.ParseRows(text)
	kept := make([]row, 0, len(l.rows))
	for _, r := range l.rows {
		var ok bool
		if err == nil {
			ok, err = f.Match(rowFields(l.cols, r))
		}
		if err != nil {
			break
		}
		if ok {
			kept = append(kept, r)
		}
	}
	switch {
	case err != nil && typing:
		return
	case err != nil:
		kept, l.empty = nil, cleanLine(err.Error())
	case len(kept) == 0:
		l.empty = "Nothing matches " + clean(text) + "."
	}
	l.filtered = len(l.rows) - len(kept)
	l.rows = kept
}

// rowFields returns the fields of a row. A heading such as "SERVER / TASK" yields two fields.
func rowFields(cols []column, r row) map[string]any {
	fields := make(map[string]any, len(cols)+1)
	shown := []any{r.more} // words match the displayed texts
	for i, c := range r.cells {
		shown = append(shown, c.text)
		for title := range strings.SplitSeq(cols[i].title, "/") {
			if name := fieldName(title); name != "" {
				fields[name] = cellValue(&c, cols[i].right)
			}
		}
	}
	fields[""] = shown
	return fields
}

func fieldName(title string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r
		case r == ' ':
			return '_'
		}
		return -1
	}, strings.ToLower(title)), "_")
}

// cellValue returns the value of a cell for sorting and filters.
func cellValue(c *cell, right bool) any {
	if c.value != nil {
		return c.value
	}
	return fieldValue(c.text, right)
}

// fieldValue returns the value of a cell. Numbers, sizes and durations are in right-aligned
// columns.
func fieldValue(text string, right bool) any {
	if !right {
		return text
	}
	if text == "–" || text == "?" || text == "" {
		return nil
	}
	if n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64); err == nil {
		return n
	}
	if d, ok := filter.ParseDuration(text); ok {
		return d
	}
	digits := strings.ReplaceAll(text, " ", "")
	for _, size := range []string{digits, digits + "B"} { // 1.2k means 1,200
		if n, ok := filter.ParseSize(size); ok {
			return n
		}
	}
	return text
}
