package ui

import (
	"math"
	"strings"
	"testing"
)

func TestSparks(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	long := make([]float64, 100)
	for i := range long {
		long[i] = nan
	}
	long[99] = 1
	for name, c := range map[string]struct {
		values []float64
		moves  int // segments of the line
		starts string
	}{
		"nothing":        {nil, 0, ""},
		"gaps alone":     {[]float64{nan, nan}, 0, ""},
		"one value":      {[]float64{3}, 1, "M0.0 "},
		"a line":         {[]float64{0, 1, 2}, 1, "M0.0 27.0L60.0 14.5L120.0 2.0"},
		"a gap":          {[]float64{1, nan, 1}, 2, "M0.0 2.0M120.0 2.0"},
		"all zero":       {[]float64{0, 0}, 1, "M0.0 27.0L120.0 27.0"},
		"a late value":   {long, 1, "M120.0 "},
		"at infinity":    {[]float64{1, math.Inf(-1)}, 1, "M0.0 "},
		"less than zero": {[]float64{-1, -2}, 1, "M0.0 27.0"},
	} {
		svg := string(spark("pending", c.values))
		_, line, _ := strings.Cut(svg, `class="line" d="`)
		line, _, _ = strings.Cut(line, `"`)
		if strings.Count(line, "M") != c.moves || !strings.HasPrefix(line, c.starts) {
			t.Errorf("%s: %q", name, line)
		}
	}
	if n := len(known(long)); n != 30 {
		t.Errorf("%d values are known of a line whose last one is", n)
	}
}

func TestStateBarShowsEveryState(t *testing.T) {
	t.Parallel()
	svg := string(stateBar([]count{{"active", 1}, {"pending", 1_000_000}, {"retry", 0}}))
	if !strings.Contains(svg, `class="state-active" x="0.00" width="4.00"`) || strings.Contains(svg, "state-retry") {
		t.Errorf("the bar is %s", svg)
	}
}
