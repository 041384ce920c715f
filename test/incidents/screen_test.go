package incidents_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sequence matches what a program writes to a VT100 other than text.
var sequence = regexp.MustCompile(`^\x1b(?:\[([<=>?]?)([\d;:]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[P_^X][^\x1b]*\x1b\\|[ -/]*[0-~])`)

// screen returns the lines that a VT100 shows after an output.
func screen(output string, columns, lines int) []string {
	cells := make([][]rune, lines)
	clearLine := func(y, from, to int) {
		for x := from; x < to; x++ {
			cells[y][x] = ' '
		}
	}
	for y := range cells {
		cells[y] = make([]rune, columns)
		clearLine(y, 0, columns)
	}
	x, y, insert := 0, 0, false
	for output != "" {
		if m := sequence.FindStringSubmatch(output); m != nil {
			output = output[len(m[0]):]
			if m[1] != "" {
				continue // a mode
			}
			if m[0] == "\x1bM" {
				y = max(y-1, 0)
			}
			first, second, _ := strings.Cut(m[2], ";")
			n, _ := strconv.Atoi(first) // 0 if it is missing
			k, _ := strconv.Atoi(second)
			switch m[3] {
			case "A":
				y -= max(n, 1)
			case "B":
				y += max(n, 1)
			case "C":
				x += max(n, 1)
			case "D":
				x -= max(n, 1)
			case "H":
				y, x = max(n, 1)-1, max(k, 1)-1
			case "h", "l":
				if n == 4 {
					insert = m[3] == "h"
				}
			case "J": // to the end, or all
				clearLine(y, x*(2-n)/2, columns)
				for l := (y + 1) * (2 - n) / 2; l < lines; l++ {
					clearLine(l, 0, columns)
				}
			case "K": // to the end, from the beginning, or all
				clearLine(y, map[int]int{0: x}[n], map[int]int{0: columns, 1: min(x+1, columns), 2: columns}[n])
			}
			x, y = min(max(x, 0), columns), min(max(y, 0), lines-1)
			continue
		}
		r := []rune(output[:min(len(output), 4)])[0]
		output = output[len(string(r)):]
		switch {
		case r == '\r':
			x = 0
		case r == '\n':
			y = min(y+1, lines-1)
		case r == '\b':
			x = max(x-1, 0)
		case r == '\t':
			x = min(x/8*8+8, columns-1)
		case r >= ' ' && x < columns:
			if insert {
				copy(cells[y][x+1:], cells[y][x:])
			}
			cells[y][x] = r
			x++
		}
	}
	text := make([]string, lines)
	for y, line := range cells {
		text[y] = strings.TrimRight(string(line), " ")
	}
	return text
}

func TestScreen(t *testing.T) {
	t.Parallel()
	const output = "\x1b]11;?\x07\x1b[?1049h\x1b[2Jlost\x1b[2J\x1b[H\x1b[1;31mred\x1b[m text\x1b[3;3Hbelow\b\bx\x1b[A\x1b[2D–\x1b[1;5Hx\x1b[K\x1b[5H\ted\b\x1b[4hn\x1b[4l\r\x1bM>"
	got := strings.Join(screen(output, 20, 6), "|")
	if want := "red x|    –|  belxw|>|        end|"; got != want {
		t.Errorf("screen %q, want %q", got, want)
	}
}
