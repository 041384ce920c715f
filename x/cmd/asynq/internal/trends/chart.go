package trends

import (
	"math"
	"strings"
)

var eighths = []rune(" ▁▂▃▄▅▆▇█")

// Spark draws the last values in one line of w cells, the last at the right, as bars from zero to
// their maximum. Unknown values (NaN) are blank.
func Spark(values []float64, w int) string {
	lines := Graph(values, w, 1)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// Graph is Spark in h lines.
func Graph(values []float64, w, h int) []string {
	if w <= 0 || h <= 0 {
		return nil
	}
	shown := values[max(0, len(values)-w):]
	most := Max(shown)
	lines := make([]string, h)
	for y := range h {
		floor := (h - 1 - y) * 8
		var line strings.Builder
		line.WriteString(strings.Repeat(" ", w-len(shown)))
		for _, v := range shown {
			level := 0
			if !math.IsNaN(v) {
				level = 1 // zero is a thin line, unlike an unknown value
				if most > 0 && v > 0 {
					level = max(1, int(math.Round(v/most*float64(h*8))))
				}
			}
			line.WriteRune(eighths[min(max(level-floor, 0), 8)])
		}
		lines[y] = line.String()
	}
	return lines
}

// Max returns the largest value, at least 0.
func Max(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	return most
}
