package show

import (
	"slices"
	"strings"
)

// maxStackLines bounds the lines of a stack that are scanned.
const maxStackLines = 400

// SplitError splits the text of an error into the message and the stack after it, if there is one:
// of Go, Java, JavaScript, .NET or Python.
func SplitError(text string) (message, stack string) {
	lines := strings.SplitAfterN(text, "\n", maxStackLines)
	for n, line := range lines {
		next := ""
		if n+1 < len(lines) {
			next = lines[n+1]
		}
		if !startsStack(line, next) {
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

const pythonStack = "Traceback (most recent call last)"

func startsStack(line, next string) bool {
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"), strings.HasPrefix(line, pythonStack):
		return true
	case goPlace(next) && line != "" && line[0] != ' ' && line[0] != '\t' && strings.Contains(line, ".") && !strings.Contains(line, ": "):
		return true
	}
	_, ok := atFrame(line)
	return ok
}

// goPlace reports whether a line is the file and line of a Go frame.
func goPlace(line string) bool {
	return strings.HasPrefix(line, "\t") && strings.Contains(line, ".go:")
}

// atFrame returns the function of a frame such as "  at app.Mail.send(Mail.java:31)".
func atFrame(line string) (string, bool) {
	trimmed := strings.TrimLeft(line, " \t")
	rest, ok := strings.CutPrefix(trimmed, "at ")
	if !ok || trimmed == line || strings.TrimSpace(rest) == "" {
		return "", false
	}
	rest = strings.TrimPrefix(rest, "async ")
	if n := strings.IndexAny(rest, "( \r\n"); n > 0 {
		rest = rest[:n]
	}
	return rest, strings.ContainsAny(rest, ".:/") || strings.Contains(line, "(")
}

// mostFrames is the maximum number of frames of a fingerprint.
const mostFrames = 3

// ownFrames returns the most relevant functions of a stack: the innermost ones that are not in
// libraries, if there are any.
func ownFrames(stack string) []string {
	if stack == "" {
		return nil
	}
	var all, own []string
	lines := strings.Split(stack, "\n")
	for n, line := range lines {
		frame, ok := atFrame(line)
		switch {
		case ok:
		case n+1 < len(lines) && goPlace(lines[n+1]):
			frame = goFunction(line)
		case strings.HasPrefix(line, `  File "`) && strings.Contains(line, ", in "):
			frame = line[strings.LastIndex(line, ", in ")+len(", in "):]
		default:
			continue
		}
		if frame = strings.TrimSpace(frame); frame == "" {
			continue
		}
		all = append(all, frame)
		if !foreign(frame) {
			own = append(own, frame)
		}
	}
	if len(own) == 0 {
		own = all
	}
	if strings.HasPrefix(stack, pythonStack) {
		slices.Reverse(own)
	}
	return own[:min(len(own), mostFrames)]
}

// goFunction returns the function in a line of a Go stack, without its arguments and the compiler's
// suffixes for closures.
func goFunction(line string) string {
	line = strings.TrimPrefix(strings.TrimSpace(line), "created by ")
	line, _, _ = strings.Cut(line, " in goroutine ")
	if strings.HasSuffix(line, ")") {
		if n := strings.LastIndexByte(line, '('); n > 0 {
			line = line[:n]
		}
	}
	if n := strings.Index(line, ".func"); n > 0 && strings.Trim(line[n+len(".func"):], "0123456789.") == "" {
		line = line[:n]
	}
	return line
}

// libraries are prefixes of functions that are rarely the cause of an error.
var libraries = []string{
	"github.com/asynq-go/asynq", "github.com/hibiken/asynq", "java.", "javax.", "jdk.", "sun.", "org.springframework.", "node:", "internal/", "System.", "Microsoft.",
}

// standard are the packages of Go's standard library, by the first part of their paths.
var standard = []string{
	"bufio", "bytes", "context", "crypto", "database", "encoding", "errors", "fmt", "html", "io", "iter", "log", "maps", "math", "mime", "net", "os", "panic",
	"path", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text", "time", "unicode",
}

func foreign(frame string) bool {
	for _, library := range libraries {
		if strings.HasPrefix(frame, library) {
			return true
		}
	}
	first := frame
	if n := strings.IndexAny(frame, "./("); n >= 0 {
		first = frame[:n]
	}
	return slices.Contains(standard, first)
}
