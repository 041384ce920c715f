package errorkind

import "strings"

const (
	// maxStackLines bounds the lines of a text that are scanned for a stack, and those of a stack.
	maxStackLines = 400
	// maxFrames is the maximum number of frames of a kind.
	maxFrames = 3
	// maxFrame bounds the bytes of a frame.
	maxFrame = 100

	pythonStack = "Traceback (most recent call last)"
	pythonFrame = `  File "`
)

// cutLine returns the first line of a text without its end, and the rest.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// splitStack splits the text of an error into the message and the stack after it, if there is one:
// of Go, Java, JavaScript, .NET, PHP or Python.
func splitStack(text string) (message, stack string) {
	rest := text
	for range maxStackLines {
		if strings.IndexByte(rest, '\n') < 0 {
			break
		}
		line, after := cutLine(rest)
		next, _ := cutLine(after)
		if !startsStack(line, next) {
			rest = after
			continue
		}
		message, stack = text[:len(text)-len(rest)], rest
		if strings.HasPrefix(line, pythonStack) {
			if n := pythonMessage(stack); n < len(stack) {
				return strings.TrimSpace(message + stack[n:]), stack[:n]
			}
		}
		return strings.TrimSpace(message), stack
	}
	if _, ok := atFrame(rest); ok && rest != text { // a stack of one line
		return strings.TrimSpace(text[:len(text)-len(rest)]), rest
	}
	return strings.TrimSpace(text), ""
}

// pythonMessage returns where the message begins that follows a stack: after the last frame and
// its indented lines.
func pythonMessage(stack string) int {
	n := max(strings.LastIndex(stack, "\n"+pythonFrame), 0) + 1
	for n < len(stack) {
		line, rest := cutLine(stack[n:])
		if line != "" && line[0] != ' ' && !strings.HasPrefix(line, pythonStack) {
			return n
		}
		n = len(stack) - len(rest)
	}
	return n
}

func startsStack(line, next string) bool {
	switch {
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"), strings.HasPrefix(line, pythonStack), line == "Stack trace:":
		return true
	case strings.HasPrefix(line, "#0 ") && strings.Contains(line, "): "):
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
	if !ok || len(trimmed) == len(line) || strings.TrimSpace(rest) == "" {
		return "", false
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "async "), "new ")
	if n := strings.IndexAny(rest, "( \r\n"); n > 0 {
		rest = rest[:n]
	}
	return rest, strings.ContainsAny(rest, ".:/") || strings.Contains(line, "(")
}

// frames writes the most relevant functions of a stack: the innermost ones that are not in
// libraries, if there are any.
func (p *printer) frames(stack string) {
	var all, own frameList
	python := strings.HasPrefix(stack, pythonStack)
	for range maxStackLines {
		if stack == "" {
			break
		}
		line, rest := cutLine(stack)
		next, _ := cutLine(rest)
		stack = rest
		frame, library := frameAt(line, next)
		if frame, _, _ = strings.Cut(frame, " "); frame == "" {
			continue
		}
		all.add(frame, python)
		if !library {
			own.add(frame, python)
		}
	}
	if own.n == 0 {
		own = all
	}
	for n := range own.n {
		if n > 0 {
			p.text(" < ")
		}
		at := n
		if python {
			at = own.n - 1 - n
		}
		p.last, p.sep = "", 0
		p.print(prefix(own.frames[at], maxFrame))
	}
}

// frameList keeps the first frames, or the last ones.
type frameList struct {
	frames [maxFrames]string
	n      int
}

func (l *frameList) add(frame string, last bool) {
	if l.n == maxFrames {
		if !last {
			return
		}
		copy(l.frames[:], l.frames[1:])
		l.n--
	}
	l.frames[l.n] = frame
	l.n++
}

// frameAt returns the function of a line of a stack, and whether it belongs to a library. It
// returns "" for other lines.
func frameAt(line, next string) (frame string, library bool) {
	if frame, ok := atFrame(line); ok {
		return frame, foreign(frame) || strings.Contains(line, "node_modules/") || strings.Contains(line, "(node:")
	}
	switch {
	case goPlace(next):
		frame = goFunction(line)
		return frame, foreign(frame)
	case strings.HasPrefix(line, pythonFrame):
		place, name, found := strings.Cut(line, ", in ")
		if !found {
			return "", false
		}
		return name, strings.Contains(place, "site-packages") || strings.Contains(place, "/lib/python") || strings.Contains(place, `"<frozen`)
	case strings.HasPrefix(line, "#"):
		place, call, found := strings.Cut(line, ": ")
		if !found {
			return "", false
		}
		name, _, _ := strings.Cut(call, "(")
		return name, strings.Contains(place, "/vendor/")
	}
	return "", false
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
var standard = setOf("bufio", "bytes", "context", "crypto", "database", "encoding", "errors", "fmt", "html", "io", "iter", "log", "maps", "math", "mime",
	"net", "os", "panic", "path", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text", "time",
	"unicode")

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
	return standard.has(first)
}
