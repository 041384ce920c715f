package show

import "strings"

// Part is a part of a kind of error: literal text or a placeholder.
type Part struct {
	Text string
	Hole bool
}

// Parts splits a kind of error, as asynq.ErrorKind returns it, into parts.
func Parts(kind string) []Part {
	var parts []Part
	for kind != "" {
		n := strings.IndexAny(kind, "#‹")
		if n < 0 {
			return append(parts, Part{Text: kind})
		}
		size := 1
		if kind[n] != '#' {
			if size = holeAt(kind[n:]); size == 0 {
				size = len("‹")
				parts = append(parts, Part{Text: kind[:n+size]})
				kind = kind[n+size:]
				continue
			}
		}
		if n > 0 {
			parts = append(parts, Part{Text: kind[:n]})
		}
		parts = append(parts, Part{Text: strings.Trim(kind[n:n+size], "‹›"), Hole: true})
		kind = kind[n+size:]
	}
	return parts
}

// holeAt returns the length of the placeholder at the beginning of a text; 0 if there is none.
func holeAt(s string) int {
	rest, ok := strings.CutPrefix(s, "‹")
	if !ok {
		return 0
	}
	n := 0
	for n < len(rest) && rest[n] >= 'a' && rest[n] <= 'z' {
		n++
	}
	if n == 0 || !strings.HasPrefix(rest[n:], "›") {
		return 0
	}
	return len("‹") + n + len("›")
}

// maxStackLines bounds the lines of a text that are scanned for a stack.
const maxStackLines = 400

const pythonStack = "Traceback (most recent call last)"

// SplitError splits the text of an error into the message and the stack after it, if there is one:
// of Go, Java, JavaScript, .NET, PHP or Python.
func SplitError(text string) (message, stack string) {
	lines := strings.SplitAfterN(text, "\n", maxStackLines)
	for n, line := range lines {
		next := ""
		if n+1 < len(lines) {
			next = lines[n+1]
		}
		if !startsStack(strings.TrimRight(line, "\r\n"), next) {
			continue
		}
		message, stack = strings.Join(lines[:n], ""), strings.Join(lines[n:], "")
		if strings.HasPrefix(line, pythonStack) {
			// Python's message follows the stack.
			if last := len(strings.TrimRight(stack, "\n")); last > 0 {
				if from := strings.LastIndexByte(stack[:last], '\n') + 1; stack[from] != ' ' {
					message, stack = message+stack[from:], stack[:from]
				}
			}
		}
		return strings.TrimSpace(message), strings.Trim(stack, "\r\n")
	}
	return strings.TrimSpace(text), ""
}

func startsStack(line, next string) bool {
	trimmed := strings.TrimLeft(line, " \t")
	switch {
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"), strings.HasPrefix(line, pythonStack):
		return true
	case line == "Stack trace:", strings.HasPrefix(line, "#0 ") && strings.Contains(line, "): "): // PHP
		return true
	case strings.HasPrefix(next, "\t") && strings.Contains(next, ".go:"):
		return line != "" && trimmed == line && strings.Contains(line, ".") && !strings.Contains(line, ": ")
	default: // "  at app.Mail.send(Mail.java:31)"
		frame, ok := strings.CutPrefix(trimmed, "at ")
		return ok && trimmed != line && strings.TrimSpace(frame) != "" && strings.ContainsAny(frame, ".:/(")
	}
}
