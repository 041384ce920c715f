package prose

import (
	"regexp"
	"strings"
)

var (
	// fence matches the start or the end of a code block in Markdown.
	fence = regexp.MustCompile("^[ \t>]*(```+|~~~+)")
	// linkURL matches the target of a link in Markdown.
	linkURL = regexp.MustCompile(`\]\([^)\s]*\)`)
	// tag matches a tag of HTML within Markdown.
	tag = regexp.MustCompile(`</?[a-zA-Z][^>]*>`)
	// quotePrefix matches the markers of a quotation in Markdown.
	quotePrefix = regexp.MustCompile(`^[ \t]*(?:>[ \t]?)+`)
	// codeSpan matches a span of code in Markdown, which may go over a line break.
	codeSpan = regexp.MustCompile("``[^`]+``|`[^`]+`")
	// htmlComment matches a comment of HTML.
	htmlComment = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// readMarkdown extracts the prose of a Markdown file. It masks code blocks and spans of code, and
// also blank lines, so that a phrase ends with its paragraph. The width rule applies to paragraphs,
// list items and quotations, but not to headings, tables and HTML.
func readMarkdown(text string) source {
	var s source
	text = htmlComment.ReplaceAllStringFunc(text, func(c string) string { return string(blank(c)) })
	lines := strings.Split(text, "\n")
	prose := make([]string, len(lines))
	closing := ""                      // what ends the code block
	inner := 0                         // the indentation of the current list item's text
	afterBlank, inCode := false, false // whether the last line was blank, or indented code
	for i, line := range lines {
		mark := fence.FindStringSubmatch(line)
		switch {
		case closing != "":
			prose[i] = string(mask)
			if len(mark) > 1 && strings.HasPrefix(mark[1], closing) {
				closing = ""
			}
			continue
		case mark != nil:
			closing = mark[1]
			prose[i] = string(mask)
			continue
		case strings.TrimSpace(line) == "":
			prose[i] = string(mask)
			afterBlank = true
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch item := listItem.FindString(line); {
		case (afterBlank || inCode) && indent >= inner+4:
			prose[i] = string(mask)
			inCode = true
			continue
		case item != "":
			inner = len(item)
		case afterBlank && indent == 0:
			inner = 0
		}
		afterBlank, inCode = false, false
		body := quotePrefix.ReplaceAllStringFunc(line, func(q string) string { return strings.Repeat(" ", len(q)) })
		prose[i] = linkURL.ReplaceAllString(body, "]")
		if wrapped(strings.TrimSpace(body)) {
			s.lines = append(s.lines, sourceLine{line, listItem.ReplaceAllString(body, ""), i + 1})
		}
	}
	masked := []byte(strings.Join(prose, "\n"))
	for _, re := range []*regexp.Regexp{codeSpan, tag} {
		for _, at := range re.FindAllIndex(masked, -1) {
			copy(masked[at[0]:at[1]], blank(string(masked[at[0]:at[1]])))
		}
	}
	s.passages = []Passage{newPassage(Document, 1, string(maskCode(masked)))}
	return s
}

// wrapped reports whether a line of Markdown belongs to a paragraph that can be wrapped. Headings,
// tables, HTML, link targets and pictures cannot.
func wrapped(line string) bool {
	return !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "<") &&
		!strings.HasPrefix(line, "![") && !strings.HasPrefix(line, "[![") && !linkTarget.MatchString(line)
}

var (
	// hiddenElement matches elements whose content is code or a drawing.
	hiddenElement = regexp.MustCompile(`(?is)<(?:script|style|code|pre|svg)\b.*?</(?:script|style|code|pre|svg)>`)
	// inlineTag matches tags that do not interrupt a sentence.
	inlineTag = regexp.MustCompile(`(?i)^</?(?:a|abbr|b|em|i|mark|q|small|span|strong|time)\b`)
	// textAttribute matches the attributes that users read.
	textAttribute = regexp.MustCompile(`(?i)\b(?:title|alt|placeholder|aria-label|label|content|value|data-(?:is|tip|text|title|confirm))="([^"]*)"`)
	// quoted matches the strings of a template action.
	quoted = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`")
)

// readTemplate extracts the prose of an HTML template: its comments, the texts between the tags,
// the attributes that users read, and the strings with a space in template actions.
func readTemplate(text string) []Passage {
	comments, texts := blank(text), []byte(text)
	hide := func(from, to int) { copy(texts[from:to], blank(text[from:to])) }
	for _, at := range hiddenElement.FindAllStringIndex(text, -1) {
		hide(at[0], at[1])
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "<!--"):
			i = keepBlock(comments, hide, text, i, "<!--", "-->")
		case strings.HasPrefix(text[i:], "{{/*"):
			i = keepBlock(comments, hide, text, i, "{{/*", "*/}}")
		case strings.HasPrefix(text[i:], "{{"):
			_, end := enclosed(text, i, "{{", "}}")
			end = min(end+2, len(text))
			hideAction(texts, hide, text, i, end)
			i = end
		case text[i] == '<':
			end := tagEnd(text, i)
			hideTag(texts, hide, text, i, end)
			i = end
		default:
			i++
		}
	}
	return []Passage{
		newPassage(Comment, 1, string(maskCode(comments))),
		newPassage(Text, 1, string(texts)),
	}
}

// keepBlock moves the comment at text[at:] from the texts to the comments, and returns its end.
func keepBlock(comments []byte, hide func(from, to int), text string, at int, open, end string) int {
	from, to := enclosed(text, at, open, end)
	copy(comments[from:to], text[from:to])
	to = min(to+len(end), len(text))
	hide(at, to)
	return to
}

// hideAction masks a template action except its strings that have a space.
func hideAction(texts []byte, hide func(from, to int), text string, from, to int) {
	shown := string(texts[from]) != string(mask)
	hide(from, to)
	if !shown {
		return
	}
	for _, at := range quoted.FindAllStringIndex(text[from:to], -1) {
		if s := text[from+at[0]+1 : from+at[1]-1]; strings.Contains(s, " ") {
			copy(texts[from+at[0]+1:], s)
		}
	}
}

// tagEnd returns the end of the tag that starts at text[at]. Template actions in it may contain
// angle brackets.
func tagEnd(text string, at int) int {
	for i := at; i < len(text); i++ {
		if strings.HasPrefix(text[i:], "{{") {
			_, end := enclosed(text, i, "{{", "}}")
			i = end
		} else if text[i] == '>' {
			return i + 1
		}
	}
	return len(text)
}

// hideTag masks a tag except its attributes that users read. An inline tag becomes spaces.
func hideTag(texts []byte, hide func(from, to int), text string, from, to int) {
	shown := texts[from] != mask
	hide(from, to)
	if !shown {
		return
	}
	if inlineTag.MatchString(text[from:to]) {
		for i, c := range texts[from:to] {
			if c == mask {
				texts[from+i] = ' '
			}
		}
	}
	for _, at := range textAttribute.FindAllStringSubmatchIndex(text[from:to], -1) {
		s := text[from+at[2] : from+at[3]]
		if strings.Contains(s, "{{") {
			s = action.ReplaceAllStringFunc(s, func(a string) string { return string(blank(a)) })
		}
		texts[from+at[2]-1] = mask
		copy(texts[from+at[2]:], s)
		if end := from + at[3]; end < len(texts) {
			texts[end] = mask
		}
	}
}

// action matches a template action.
var action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
