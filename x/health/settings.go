package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// Settings are the thresholds of all rules. A field that is zero has its default. In JSON, the
// fields have the names of their tags, and durations are texts such as "90s".
type Settings struct {
	// Age of the oldest pending task. The defaults are 1, 5 and 30 minutes.
	WaitNotice  time.Duration `json:"wait_notice"`
	WaitWarning time.Duration `json:"wait_warning"`
	WaitTrouble time.Duration `json:"wait_trouble"`

	// How long scheduled and retry tasks have been due while no server moves them to pending.
	// Servers need up to a few seconds. The defaults are 30 seconds and 5 minutes.
	OverdueWarning time.Duration `json:"overdue_warning"`
	OverdueTrouble time.Duration `json:"overdue_trouble"`

	// How long ago the lease of an active task expired while no server recovers the task. Servers
	// need up to ten seconds. The defaults are 15 seconds and 2 minutes.
	OrphanWarning time.Duration `json:"orphan_warning"`
	OrphanTrouble time.Duration `json:"orphan_trouble"`

	// Trend is the time over which a Monitor measures growth and failures, from 2 minutes to 1
	// hour. The default is 5 minutes.
	Trend time.Duration `json:"trend"`

	// A backlog grows if it gained this many tasks within Trend, and this share of its size. The
	// defaults are 100 and 0.1.
	GrowthTasks int     `json:"growth_tasks"`
	GrowthShare float64 `json:"growth_share"`

	// DrainNotice is how long a shrinking backlog may take. The default is 1 hour.
	DrainNotice time.Duration `json:"drain_notice"`

	// Share of failed attempts within Trend, and how many attempts it takes at least. The defaults
	// are 0.2, 0.9 and 10.
	FailingWarning  float64 `json:"failing_warning"`
	FailingTrouble  float64 `json:"failing_trouble"`
	FailingAttempts int     `json:"failing_attempts"`

	// PoisonAttempts is how many attempts of a task crash its server, or panic, before the task
	// counts as poison. The default is 2.
	PoisonAttempts int `json:"poison_attempts"`

	// ArchivingTasks is the number of tasks archived within Trend. The default is 100.
	ArchivingTasks int `json:"archiving_tasks"`

	// ArchiveNotice is the used share of the limit of an archive. The default is 0.9.
	ArchiveNotice float64 `json:"archive_notice"`

	// SaturatedNotice is how long all slots of a queue with pending tasks have been busy. The
	// default is 3 minutes.
	SaturatedNotice time.Duration `json:"saturated_notice"`

	// HogShare is the share of busy slots from which on a type holds most of them. The default is
	// 0.4.
	HogShare float64 `json:"hog_share"`

	// SlowFactor is by how much the 95th percentile of the durations of a type has risen. The
	// default is 3.
	SlowFactor float64 `json:"slow_factor"`

	// CrashReported is how long a crashed server is reported. The default is 10 minutes.
	CrashReported time.Duration `json:"crash_reported"`

	// OverrunWarning is how long a handler has run past its deadline. The default is 1 minute.
	OverrunWarning time.Duration `json:"overrun_warning"`

	// MissedWarning is how long a periodic task has been due. The default is 1 minute.
	MissedWarning time.Duration `json:"missed_warning"`

	// NoSchedulerReported is how long a missing scheduler is reported. The default is 24 hours.
	NoSchedulerReported time.Duration `json:"no_scheduler_reported"`

	// Difference between the clock of a process and that of Redis. The defaults are 5 and 30
	// seconds.
	ClockNotice  time.Duration `json:"clock_notice"`
	ClockWarning time.Duration `json:"clock_warning"`

	// Used share of maxmemory. The defaults are 0.8 and 0.95.
	MemoryWarning float64 `json:"memory_warning"`
	MemoryTrouble float64 `json:"memory_trouble"`

	// UnsavedWarning is how long changes may stay unsaved on a Redis without a replica. The default
	// is 10 minutes; fewer than 100 changes are reported after 65 minutes at the earliest, because
	// Redis saves them every hour by default.
	UnsavedWarning time.Duration `json:"unsaved_warning"`

	// Fragmentation is the memory that Redis occupies beyond what it uses, as a share of that, if
	// it uses FragmentationBytes or more. The defaults are 0.5 and 100 MiB.
	Fragmentation      float64 `json:"fragmentation"`
	FragmentationBytes int     `json:"fragmentation_bytes"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		WaitNotice: time.Minute, WaitWarning: 5 * time.Minute, WaitTrouble: 30 * time.Minute,
		OverdueWarning: 30 * time.Second, OverdueTrouble: 5 * time.Minute,
		OrphanWarning: 15 * time.Second, OrphanTrouble: 2 * time.Minute,
		Trend: 5 * time.Minute, GrowthTasks: 100, GrowthShare: 0.1, DrainNotice: time.Hour,
		FailingWarning: 0.2, FailingTrouble: 0.9, FailingAttempts: 10, PoisonAttempts: 2,
		ArchivingTasks: 100, ArchiveNotice: 0.9,
		SaturatedNotice: 3 * time.Minute, HogShare: 0.4, SlowFactor: 3,
		CrashReported: 10 * time.Minute, OverrunWarning: time.Minute,
		MissedWarning: time.Minute, NoSchedulerReported: 24 * time.Hour,
		ClockNotice: 5 * time.Second, ClockWarning: 30 * time.Second,
		MemoryWarning: 0.8, MemoryTrouble: 0.95, UnsavedWarning: 10 * time.Minute,
		Fragmentation: 0.5, FragmentationBytes: 100 << 20,
	}
}

// withDefaults returns the settings with the defaults of fields that are zero.
func (s Settings) withDefaults() Settings {
	filled, defaults := reflect.ValueOf(&s).Elem(), reflect.ValueOf(DefaultSettings())
	for n := range filled.NumField() {
		if filled.Field(n).IsZero() {
			filled.Field(n).Set(defaults.Field(n))
		}
	}
	return s
}

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
