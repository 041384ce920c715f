package ui

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// On phones, CSS removes the semantics of tables, so they need explicit roles.
func TestTablesHaveRoles(t *testing.T) {
	t.Parallel()
	roles := map[string]string{"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell"}
	part := regexp.MustCompile(`<(table|thead|tbody|tr|td|th)\b[^>]*`)
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := fs.ReadFile(templateFiles, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range part.FindAllStringSubmatch(string(text), -1) {
			role := roles[m[1]]
			if m[1] == "th" {
				role = map[bool]string{true: "rowheader", false: "columnheader"}[strings.Contains(m[0], `scope="row"`)]
			}
			seen++
			if !strings.Contains(m[0], ` role="`+role+`"`) {
				t.Errorf("%s: %s… has not the role %s", file, m[0], role)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d parts of tables were found", seen)
	}
}
