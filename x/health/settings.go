package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Settings are the thresholds of all rules. A field that is zero has its default. In JSON, the
// fields have the names of their tags, and durations are texts such as "90s".
type Settings struct {
	// Age of the oldest pending task. The defaults are 1, 5 and 30 minutes.
	WaitNotice  time.Duration `json:"wait_notice" default:"1m"`
	WaitWarning time.Duration `json:"wait_warning" default:"5m"`
	WaitTrouble time.Duration `json:"wait_trouble" default:"30m"`

	// How long scheduled and retry tasks have been due while no server moves them to pending.
	// Servers need up to a few seconds. The defaults are 30 seconds and 5 minutes.
	OverdueWarning time.Duration `json:"overdue_warning" default:"30s"`
	OverdueTrouble time.Duration `json:"overdue_trouble" default:"5m"`

	// How long ago the lease of an active task expired while no server recovers the task. Servers
	// need up to ten seconds. The defaults are 15 seconds and 2 minutes.
	OrphanWarning time.Duration `json:"orphan_warning" default:"15s"`
	OrphanTrouble time.Duration `json:"orphan_trouble" default:"2m"`

	// Trend is the time over which a Monitor measures growth and failures, from 2 minutes to 1
	// hour. The default is 5 minutes.
	Trend time.Duration `json:"trend" default:"5m"`

	// A backlog grows if it gained this many tasks within Trend, and this share of its size. The
	// defaults are 100 and 0.1.
	GrowthTasks int     `json:"growth_tasks" default:"100"`
	GrowthShare float64 `json:"growth_share" default:"0.1"`

	// DrainNotice is how long a shrinking backlog may take. The default is 1 hour.
	DrainNotice time.Duration `json:"drain_notice" default:"1h"`

	// Share of failed attempts within Trend, and how many attempts it takes at least. The defaults
	// are 0.2, 0.9 and 10.
	FailingWarning  float64 `json:"failing_warning" default:"0.2"`
	FailingTrouble  float64 `json:"failing_trouble" default:"0.9"`
	FailingAttempts int     `json:"failing_attempts" default:"10"`

	// PoisonAttempts is how many attempts of a task crash its server, or panic, before the task
	// counts as poison. The default is 2.
	PoisonAttempts int `json:"poison_attempts" default:"2"`

	// ArchivingTasks is the number of tasks archived within Trend. The default is 100.
	ArchivingTasks int `json:"archiving_tasks" default:"100"`

	// ArchiveNotice is the used share of the limit of an archive. The default is 0.9.
	ArchiveNotice float64 `json:"archive_notice" default:"0.9"`

	// SaturatedNotice is how long all slots of a queue with pending tasks have been busy. The
	// default is 3 minutes.
	SaturatedNotice time.Duration `json:"saturated_notice" default:"3m"`

	// HogShare is the share of busy slots from which on a type holds most of them. The default is
	// 0.4.
	HogShare float64 `json:"hog_share" default:"0.4"`

	// SlowFactor is by how much the 95th percentile of the durations of a type has risen. The
	// default is 3.
	SlowFactor float64 `json:"slow_factor" default:"3"`

	// CrashReported is how long a crashed server is reported. The default is 10 minutes.
	CrashReported time.Duration `json:"crash_reported" default:"10m"`

	// OverrunWarning is how long a handler has run past its deadline. The default is 1 minute.
	OverrunWarning time.Duration `json:"overrun_warning" default:"1m"`

	// MissedWarning is how long a periodic task has been due. The default is 1 minute.
	MissedWarning time.Duration `json:"missed_warning" default:"1m"`

	// NoSchedulerReported is how long a missing scheduler is reported. The default is 24 hours.
	NoSchedulerReported time.Duration `json:"no_scheduler_reported" default:"24h"`

	// Difference between the clock of a process and that of Redis. The defaults are 5 and 30
	// seconds.
	ClockNotice  time.Duration `json:"clock_notice" default:"5s"`
	ClockWarning time.Duration `json:"clock_warning" default:"30s"`

	// Used share of maxmemory. The defaults are 0.8 and 0.95.
	MemoryWarning float64 `json:"memory_warning" default:"0.8"`
	MemoryTrouble float64 `json:"memory_trouble" default:"0.95"`

	// UnsavedWarning is how long changes may stay unsaved on a Redis without a replica. The default
	// is 10 minutes; fewer than 100 changes are reported after 65 minutes at the earliest, because
	// Redis saves them every hour by default.
	UnsavedWarning time.Duration `json:"unsaved_warning" default:"10m"`

	// Fragmentation is the memory that Redis occupies beyond what it uses, as a share of that, if
	// it uses FragmentationBytes or more. The defaults are 0.5 and 100 MiB.
	Fragmentation      float64 `json:"fragmentation" default:"0.5"`
	FragmentationBytes int     `json:"fragmentation_bytes" default:"104857600"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{}.withDefaults() }

// withDefaults returns the settings with the defaults of fields that are zero.
func (s Settings) withDefaults() Settings {
	v := reflect.ValueOf(&s).Elem()
	for n := range v.NumField() {
		if f := v.Field(n); f.IsZero() {
			f.Set(defaults[n])
		}
	}
	return s
}

// defaults are the values of the tags of the fields.
var defaults = func() (all []reflect.Value) {
	settings := reflect.TypeFor[Settings]()
	for n := range settings.NumField() {
		value, text := reflect.New(settings.Field(n).Type).Elem(), settings.Field(n).Tag.Get("default")
		if settings.Field(n).Type == reflect.TypeFor[time.Duration]() {
			text = strconv.Quote(text)
		}
		if err := setField(value, json.RawMessage(text)); err != nil {
			panic(err)
		}
		all = append(all, value)
	}
	return all
}()

// Bounds of Trend.
const (
	leastTrend   = 2 * time.Minute
	longestTrend = time.Hour
)

// Validate returns an error that names each invalid field as in JSON: one that is negative or not a
// number, a threshold of a higher severity that is below that of a lower one, a Trend out of its
// bounds, or a share above 1. It checks the settings with the defaults of fields that are zero.
func (s Settings) Validate() error {
	s = s.withDefaults()
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("health: "+format, args...)) }
	v := reflect.ValueOf(s)
	for n := range v.NumField() {
		name := v.Type().Field(n).Tag.Get("json")
		switch f := v.Field(n); {
		case f.CanInt() && f.Int() < 0:
			fail("%s must not be negative", name)
		case f.CanFloat() && (f.Float() < 0 || math.IsNaN(f.Float()) || math.IsInf(f.Float(), 0)):
			fail("%s must be a number that is not negative", name)
		}
	}
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"failing_warning", s.FailingWarning}, {"failing_trouble", s.FailingTrouble}, {"archive_notice", s.ArchiveNotice},
		{"hog_share", s.HogShare}, {"memory_warning", s.MemoryWarning}, {"memory_trouble", s.MemoryTrouble},
	} {
		if share.value > 1 {
			fail("%s must not be above 1", share.name)
		}
	}
	for _, pair := range []struct {
		low, high string
		ok        bool
	}{
		{"wait_notice", "wait_warning", s.WaitNotice <= s.WaitWarning}, {"wait_warning", "wait_trouble", s.WaitWarning <= s.WaitTrouble},
		{"overdue_warning", "overdue_trouble", s.OverdueWarning <= s.OverdueTrouble},
		{"orphan_warning", "orphan_trouble", s.OrphanWarning <= s.OrphanTrouble},
		{"failing_warning", "failing_trouble", s.FailingWarning <= s.FailingTrouble},
		{"clock_notice", "clock_warning", s.ClockNotice <= s.ClockWarning},
		{"memory_warning", "memory_trouble", s.MemoryWarning <= s.MemoryTrouble},
	} {
		if !pair.ok {
			fail("%s must not be above %s", pair.low, pair.high)
		}
	}
	if s.Trend < leastTrend || s.Trend > longestTrend {
		fail("trend must be from %v to %v", leastTrend, longestTrend)
	}
	if s.SlowFactor < 1 {
		fail("slow_factor must be at least 1")
	}
	return errors.Join(errs...)
}

// ParseSettings parses settings in JSON and validates them. It returns an error that names a field
// that is unknown or invalid. Fields that are missing have their defaults.
func ParseSettings(data []byte) (Settings, error) {
	var fields map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&fields); err != nil {
		return Settings{}, fmt.Errorf("health: settings are not a JSON object: %w", err)
	}
	if d.More() {
		return Settings{}, errors.New("health: settings are more than one JSON object")
	}
	var s Settings
	v := reflect.ValueOf(&s).Elem()
	for n := range v.NumField() {
		name := v.Type().Field(n).Tag.Get("json")
		raw, ok := fields[name]
		if !ok {
			continue
		}
		delete(fields, name)
		if err := setField(v.Field(n), raw); err != nil {
			return Settings{}, fmt.Errorf("health: %s: %w", name, err)
		}
	}
	for name := range fields {
		return Settings{}, fmt.Errorf("health: unknown setting %q", name)
	}
	return s, s.Validate()
}

// setField sets a field to a value in JSON.
func setField(field reflect.Value, raw json.RawMessage) error {
	if _, ok := field.Interface().(time.Duration); !ok {
		if err := json.Unmarshal(raw, field.Addr().Interface()); err != nil {
			return fmt.Errorf("%s is not a number", raw)
		}
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf(`%s is not a duration such as "90s"`, raw)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "90s"`, text)
	}
	field.SetInt(int64(d))
	return nil
}

// MarshalJSON writes all fields, those that are zero with their defaults.
func (s Settings) MarshalJSON() ([]byte, error) {
	v := reflect.ValueOf(s.withDefaults())
	var b strings.Builder
	begin := "{"
	for n := range v.NumField() {
		value := v.Field(n).Interface()
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("health: %s: %w", v.Type().Field(n).Tag.Get("json"), err)
		}
		fmt.Fprintf(&b, "%s%q:%s", begin, v.Type().Field(n).Tag.Get("json"), encoded)
		begin = ","
	}
	return []byte(b.String() + "}"), nil
}

// UnmarshalJSON calls ParseSettings.
func (s *Settings) UnmarshalJSON(data []byte) (err error) {
	*s, err = ParseSettings(data)
	return err
}
