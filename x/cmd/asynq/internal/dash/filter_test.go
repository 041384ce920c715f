package dash

import (
	"strings"
	"testing"
)

func filterRows() listing {
	return listing{
		cols: []column{{title: "QUEUE / TASK"}, {title: "NOTE"}, {title: "PENDING", right: true}, {title: "FAILED AGO", right: true}, {title: ""}},
		rows: []row{
			{key: "a", cells: []cell{text("mail:fast"), text("ok"), text("1,234"), text("1d02h"), text("▁▂")}, more: "hidden Text"},
			{key: "b", cells: []cell{text("mail:slow"), text("paused"), text("0"), text("2.5s"), text("")}},
			{key: "c", cells: []cell{text("007"), text("no server"), text("1.2k"), text("–"), text("")}},
		},
	}
}

// Rows are filtered by their displayed values, in the filter language of tasks.
func TestApplyFilter(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]string{
		"MAIL": "ab", "queue:mail:*": "ab", "task:mail:*": "ab", "-queue:mail:*": "c", "queue:007": "c", "queue:7": "", "pending>8": "ac", "pending:1200": "c",
		"pending>1.21kB": "a", "failed_ago>1d": "a", "failed_ago<1d": "b", `failed_ago:""`: "c", `note:"no server" OR pending:0`: "bc",
		"1,234": "a", "1d02h": "a", "hidden": "a", `"hidden text"`: "a", "mail -paused": "a",
	} {
		l := filterRows()
		l.applyFilter(filter, false)
		var got string
		for _, r := range l.rows {
			got += r.key
		}
		if got != want || l.filtered != 3-len(want) {
			t.Errorf("%s leaves %q with %d hidden, want %q: %s", filter, got, l.filtered, want, l.empty)
		}
	}
	for filter, want := range map[string]string{"colour:red": "use failed_ago, note, pending, queue, task", "pending>": "missing value", "zz": "Nothing matches zz."} {
		l := filterRows()
		if l.applyFilter(filter, false); len(l.rows) > 0 || !strings.Contains(l.empty, want) {
			t.Errorf("%s leaves %d rows and shows %q, want %q", filter, len(l.rows), l.empty, want)
		}
	}
	l := filterRows()
	if l.applyFilter("pending>", true); len(l.rows) != 3 || l.filtered != 0 {
		t.Error("an incomplete filter hides rows while it is being typed")
	}
}
