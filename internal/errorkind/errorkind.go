// Package errorkind reduces the text of an error to its kind: what errors with the same cause have
// in common.
package errorkind

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// MaxBytes bounds a kind without its frames, maxFrameBytes its frames.
	MaxBytes      = 400
	maxFrameBytes = 320
	// maxMessage bounds the bytes of a message that are read.
	maxMessage = 2048
	// maxPasses bounds how often a text is reduced until it does not change anymore. The second
	// pass finds most kinds unchanged.
	maxPasses = 6
)

// frameMark separates the message of a kind from its frames.
const frameMark = " @ "

// Of returns the kind of an error by its text: see asynq.ErrorKind for the rules. The result is one
// line of valid UTF-8, and its own kind.
func Of(text string) string {
	p := printers.Get().(*printer)
	kind := text
	for range maxPasses {
		p.reduce(kind)
		if string(p.out) == kind {
			break
		}
		kind = string(p.out)
	}
	*p = printer{out: p.out[:0]}
	printers.Put(p)
	return kind
}

// printers are reused for their buffers.
var printers = sync.Pool{New: func() any { return new(printer) }}

// reduce writes the kind of a text.
func (p *printer) reduce(text string) {
	*p = printer{out: p.out[:0]}
	message, stack := splitStack(text)
	message = withoutControl(prefix(message, maxMessage))
	frames := ""
	if n := strings.LastIndex(message, frameMark); stack == "" && n > 0 {
		message, frames = message[:n], message[n+len(frameMark):] // the text of a kind has no stack
	}
	p.print(message)
	p.cut(0, MaxBytes)
	if stack == "" && frames == "" {
		return
	}
	start := len(p.out)
	if start == 0 {
		p.out = append(p.out, frameMark[1:]...)
	} else {
		p.out = append(p.out, frameMark...)
	}
	from := len(p.out)
	p.last, p.sep, p.code = "", 0, false
	if stack == "" {
		p.print(frames)
	} else {
		p.frames(stack)
	}
	if p.cut(from, maxFrameBytes); len(p.out) == from {
		p.out = p.out[:start]
	}
}

// cut bounds what was written since an offset. It prefers to cut between words, and does not split
// placeholders.
func (p *printer) cut(from, most int) {
	const ellipsis = "…"
	part := bytes.TrimSpace(p.out[from:])
	if len(part) > most {
		end := most - len(ellipsis)
		for end > 0 && !utf8.RuneStart(part[end]) {
			end--
		}
		part = part[:end]
		if n := bytes.LastIndexByte(part, ' '); n > len(part)*3/4 {
			part = part[:n]
		} else if n := bytes.LastIndex(part, []byte("‹")); n >= 0 && holeAt(string(part[n:])) == 0 {
			part = part[:n]
		}
		part = append(bytes.TrimRight(part, " …"), ellipsis...)
	}
	p.out = append(p.out[:from], part...)
}

// prefix returns the first bytes of a text, without a part of a rune at the end.
func prefix(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// control are the texts of errors that a handler wraps to choose the outcome of an attempt. Those
// that end with a space are followed by a duration.
var control = [...]string{"skip retry for the task", "revoke task", "asynq: task snoozed for ", "asynq: retry after "}

// withoutControl removes control errors from a message, unless there is nothing else.
func withoutControl(s string) string {
	for _, text := range control {
		for from := 0; from < len(s); {
			n := strings.Index(s[from:], text)
			if n < 0 {
				break
			}
			n += from
			end := n + len(text)
			if strings.HasSuffix(text, " ") {
				if size := strings.IndexAny(s[end:], ": \n)"); size >= 0 {
					end += size
				} else {
					end = len(s)
				}
			}
			from = end
			before, after := s[:n], s[end:]
			if before != "" && !strings.HasSuffix(before, ": ") && !strings.HasSuffix(before, "\n") ||
				after != "" && after[0] != ':' && after[0] != '\n' {
				continue
			}
			before, after = strings.TrimRight(before, ": \n"), strings.TrimLeft(after, ": \n")
			switch {
			case before == "" && after == "":
				return s
			case before == "" || after == "":
				s = before + after
			default:
				s = before + ": " + after
			}
			from = min(len(before), n)
		}
	}
	return s
}
