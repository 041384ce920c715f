package main

import (
	"fmt"
	"math"
)

// sample is a value at a time in seconds.
type sample struct{ at, value float64 }

// slope returns the slope of the least squares line per second, and its standard error.
func slope(samples []sample) (perSecond, err float64) {
	n := float64(len(samples))
	var x, y float64
	for _, s := range samples {
		x += s.at / n
		y += s.value / n
	}
	var xx, xy, yy float64
	for _, s := range samples {
		xx += (s.at - x) * (s.at - x)
		xy += (s.at - x) * (s.value - y)
		yy += (s.value - y) * (s.value - y)
	}
	if xx == 0 || n < 3 {
		return 0, math.Inf(1)
	}
	perSecond = xy / xx
	return perSecond, math.Sqrt(max(yy-perSecond*xy, 0) / (n - 2) / xx)
}

// grows returns the growth of samples over their time span, and an error if it exceeds the limit
// and is significant. It ignores the first quarter, while pools and maps fill.
func grows(name string, samples []sample, allowed float64) (growth float64, err error) {
	samples = samples[len(samples)/4:]
	if len(samples) < 8 {
		return 0, fmt.Errorf("%s: only %d samples are not enough", name, len(samples))
	}
	per, dev := slope(samples)
	span := samples[len(samples)-1].at - samples[0].at
	if growth = per * span; growth > allowed && per > 3*dev {
		return growth, fmt.Errorf("%s grows: by %s in %.0f s, where %s are allowed", name, number(growth), span, number(allowed))
	}
	return growth, nil
}
