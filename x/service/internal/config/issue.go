package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Issue is something about a place in a file. It never tells a secret.
type Issue struct {
	File         string
	Line, Column int // from 1
	Text         string
}

// String is the issue as compilers write theirs.
func (i Issue) String() string { return fmt.Sprintf("%s:%d:%d: %s", i.File, i.Line, i.Column, i.Text) }

// Errors are all that is wrong with a file, in the order of the places.
type Errors []Issue

// Error has a line for each.
func (e Errors) Error() string { return lines(e) }

func lines(issues []Issue) string {
	texts := make([]string, len(issues))
	for i := range issues {
		texts[i] = issues[i].String()
	}
	return strings.Join(texts, "\n")
}

// inOrder sorts issues by their places, and drops those that come twice.
func inOrder(issues []Issue) []Issue {
	slices.SortStableFunc(issues, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(issues)
}

var lineOfYAML = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntaxError is what the parser of YAML says, with the place in front.
func syntaxError(file string, content []byte, err error) Issue {
	issue := Issue{File: file, Line: 1, Column: 1, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := lineOfYAML.FindStringSubmatch(err.Error()); m != nil {
		issue.Line, _ = strconv.Atoi(m[1])
		issue.Text = m[2]
	} else if m := unknownAnchor.FindStringSubmatch(err.Error()); m != nil {
		issue.Line, issue.Column = aliasIn(string(content), m[1])
	}
	issue.Text = "this is no YAML: " + issue.Text
	return issue
}

// aliasIn finds where an alias is used, of which the parser does not tell the place.
func aliasIn(text, name string) (line, column int) {
	for i, row := range strings.Split(text, "\n") {
		if column := aliasInRow(row, name); column > 0 {
			return i + 1, column
		}
	}
	return 1, 1
}

func aliasInRow(row, name string) (column int) {
	var quote byte // that is open
	for i := range len(row) {
		c := row[i]
		begins := i == 0 || strings.IndexByte(" \t[{,:", row[i-1]) >= 0
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case !begins:
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return 0
		case c == '*':
			if after, ok := strings.CutPrefix(row[i+1:], name); ok && (after == "" || strings.IndexByte(" \t\r]},:", after[0]) >= 0) {
				return i + 1
			}
		}
	}
	return 0
}

// place is where a node is.
func place(file string, n *yaml.Node, text string) Issue {
	return Issue{File: file, Line: max(n.Line, 1), Column: max(n.Column, 1), Text: text}
}
