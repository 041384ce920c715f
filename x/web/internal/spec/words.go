package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

// Words describes the ticks of a spec, such as "every day at 04:30". It returns "" if the spec
// itself is clearer or is invalid.
func Words(text string) string {
	zone, rest := cutZone(text)
	if _, err := parse(rest); err != nil {
		return ""
	}
	said := words(rest)
	if said != "" && zone != "" {
		said += " in " + zone
	}
	return said
}

func words(text string) string {
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(every)
		if err != nil {
			return ""
		}
		return "every " + exact(max(d.Truncate(time.Second), time.Second))
	}
	if spec, ok := map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}[text]; ok {
		text = spec
	}
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return ""
	}
	var fields [5]field
	for i, part := range parts {
		var ok bool
		if fields[i], ok = readField(part, limits[i], names[i]); !ok {
			return ""
		}
	}
	clock, often, ok := clockWords(fields[0], fields[1])
	if !ok {
		return ""
	}
	days, ok := dayWords(fields[2], fields[3], fields[4], often != "")
	if !ok {
		return ""
	}
	return strings.Join(slices.DeleteFunc([]string{often, days, clock}, func(s string) bool { return s == "" }), " ")
}

// exact formats a duration completely.
func exact(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, strconv.Itoa(int(n))+unit.name)
			d -= n * unit.size
		}
	}
	return strings.Join(parts, " ")
}

// field is one of the five fields of a spec.
type field struct {
	all    bool  // every value
	step   int   // of */n if n divides the range
	values []int // of all other fields, in order
	whole  bool  // one range without gaps
}

var (
	limits = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	names  = [5][]string{3: {"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}, 4: {"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
)

// readField parses one field. It returns false if there are no short words for it.
func readField(text string, limit [2]int, names []string) (field, bool) {
	size := limit[1] - limit[0] + 1
	if text == "*" || text == "?" {
		return field{all: true}, true
	}
	if step, ok := strings.CutPrefix(text, "*/"); ok {
		n, err := strconv.Atoi(step)
		if err != nil || n <= 0 || n >= size || size%n != 0 || limit[0] != 0 || names != nil {
			return field{all: n == 1 && err == nil}, n == 1 && err == nil
		}
		return field{all: n == 1, step: n}, true
	}
	number := func(s string) (int, bool) {
		if i := slices.Index(names, strings.ToLower(s)); i >= 0 && s != "" {
			return i, true
		}
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= limit[0] && n <= limit[1]
	}
	var f field
	for part := range strings.SplitSeq(text, ",") {
		if strings.Contains(part, "/") {
			return field{}, false
		}
		from, to, isRange := strings.Cut(part, "-")
		low, ok := number(from)
		high := low
		if ok && isRange {
			high, ok = number(to)
		}
		if !ok || high < low {
			return field{}, false
		}
		for n := low; n <= high; n++ {
			f.values = append(f.values, n)
		}
	}
	slices.Sort(f.values)
	f.values = slices.Compact(f.values)
	if len(f.values) == size {
		return field{all: true}, true
	}
	f.whole = len(f.values) == f.values[len(f.values)-1]-f.values[0]+1
	return f, true
}

// most is the maximum number of times, days or months that are listed.
const most = 5

// clockWords describes the times of a day. often is "every 15 minutes" and the like, which precede
// the days.
func clockWords(minute, hour field) (clock, often string, ok bool) {
	switch {
	case minute.all && hour.all:
		return "", "every minute", true
	case minute.step > 0 && hour.all:
		return "", "every " + show.Plural(int64(minute.step), "minute"), true
	case (minute.all || minute.step > 0) && hour.values != nil && hour.whole:
		every, last := "every minute", 59
		if minute.step > 0 {
			every, last = "every "+show.Plural(int64(minute.step), "minute"), 60-minute.step
		}
		return fmt.Sprintf("from %02d:00 to %02d:%02d", hour.values[0], hour.values[len(hour.values)-1], last), every, true
	case len(minute.values) == 0:
		return "", "", false
	case hour.all && len(minute.values) == 1 && minute.values[0] == 0:
		return "", "every hour", true
	case hour.all && len(minute.values) <= most:
		unit := "minutes"
		if len(minute.values) == 1 && minute.values[0] == 1 {
			unit = "minute"
		}
		return "", "every hour at " + and(minute.values, strconv.Itoa) + " " + unit + " past", true
	case len(minute.values) == 1 && hour.step > 0:
		often = "every " + show.Plural(int64(hour.step), "hour")
		if minute.values[0] > 0 {
			return fmt.Sprintf("from 00:%02d on", minute.values[0]), often, true
		}
		return "", often, true
	case len(minute.values) == 1 && hour.whole && len(hour.values) > 2:
		return fmt.Sprintf("from %02d:%02d to %02d:%02d", hour.values[0], minute.values[0], hour.values[len(hour.values)-1], minute.values[0]), "every hour", true
	case len(minute.values)*len(hour.values) <= most && len(hour.values) > 0:
		var times []int
		for _, h := range hour.values {
			for _, m := range minute.values {
				times = append(times, h*60+m)
			}
		}
		return "at " + and(times, func(t int) string { return fmt.Sprintf("%02d:%02d", t/60, t%60) }), "", true
	}
	return "", "", false
}

// dayWords describes the days. If both days of the month and of the week are given, either is
// sufficient.
func dayWords(day, month, weekday field, often bool) (string, bool) {
	if len(day.values) > most || len(month.values) > most || day.step > 0 || weekday.step > 0 {
		return "", false
	}
	months := and(month.values, func(n int) string { return time.Month(n).String() })
	weekdays := weekdayWords(weekday)
	switch {
	case day.all && weekday.all:
		switch {
		case months == "" && often:
			return "", true
		case months == "":
			return "every day", true
		case often:
			return "in " + months, true
		}
		return "every day in " + months, true
	case day.all:
		if months != "" {
			return weekdays + " in " + months, true
		}
		return weekdays, true
	}
	days := "on the " + and(day.values, ordinal) + " of "
	if months == "" {
		days += "every month"
	} else {
		days += months
	}
	if !weekday.all {
		if months != "" {
			weekdays += " in " + months
		}
		days += ", and " + weekdays
	}
	return days, true
}

func weekdayWords(f field) string {
	switch {
	case slices.Equal(f.values, []int{1, 2, 3, 4, 5}):
		return "Monday to Friday"
	case slices.Equal(f.values, []int{0, 6}):
		return "Saturdays and Sundays"
	}
	order := func(d int) int { return (d + 6) % 7 } // weeks start on Monday
	values := slices.Clone(f.values)
	slices.SortFunc(values, func(a, b int) int { return order(a) - order(b) })
	return "on " + and(values, func(n int) string { return time.Weekday(n).String() + "s" })
}

func ordinal(n int) string {
	switch {
	case n%10 == 1 && n != 11:
		return strconv.Itoa(n) + "st"
	case n%10 == 2 && n != 12:
		return strconv.Itoa(n) + "nd"
	case n%10 == 3 && n != 13:
		return strconv.Itoa(n) + "rd"
	}
	return strconv.Itoa(n) + "th"
}

// and formats a list: a, b and c.
func and(values []int, name func(int) string) string {
	var all []string
	for _, v := range values {
		all = append(all, name(v))
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
