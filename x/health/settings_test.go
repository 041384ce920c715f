package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	if err := (Settings{}).Validate(); err != nil {
		t.Error(err)
	}
	s, err := ParseSettings([]byte(`{"wait_notice": "90s", "hog_share": 0.5, "growth_tasks": 7}`))
	if err != nil || s.WaitNotice != 90*time.Second || s.HogShare != 0.5 || s.GrowthTasks != 7 || s.WaitWarning != 0 {
		t.Errorf("settings %+v, error %v", s, err)
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Settings
	if err := json.Unmarshal(encoded, &again); err != nil || again != s.withDefaults() {
		t.Errorf("%s becomes %+v, error %v", encoded, again, err)
	}
	defaults := reflect.ValueOf(DefaultSettings())
	for n := range defaults.NumField() {
		if defaults.Field(n).IsZero() {
			t.Errorf("%s has no default", defaults.Type().Field(n).Name)
		}
	}
}

func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: "not a JSON object", `{} {}`: "more than one", `{"wait": "1s"}`: `unknown setting "wait"`,
		`{"wait_notice": 5}`: `wait_notice: 5 is not a duration such as "90s"`, `{"wait_notice": "soon"}`: `wait_notice: "soon" is not a duration`,
		`{"growth_tasks": "x"}`: `growth_tasks: "x" is not a number`, `{"growth_tasks": -1}`: "growth_tasks must not be negative",
		`{"hog_share": 1.5}`: "hog_share must not be above 1", `{"hog_share": -1}`: "hog_share must be a number that is not negative",
		`{"wait_notice": "10m"}`: "wait_notice must not be above wait_warning", `{"trend": "1m"}`: "trend must be from 2m0s to 1h0m0s",
		`{"slow_factor": 0.5}`: "slow_factor must be at least 1",
	} {
		if _, err := ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "health: ") {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := NewMonitor(Settings{Trend: time.Second}); err == nil {
		t.Error("a monitor accepts invalid settings")
	}
	if _, err := Check(t.Context(), nil, Settings{Trend: time.Second}); err == nil {
		t.Error("Check accepts invalid settings")
	}
}

func TestSeverityText(t *testing.T) {
	t.Parallel()
	for _, s := range []Severity{Notice, Warning, Trouble} {
		text, _ := s.MarshalText()
		var again Severity
		if err := again.UnmarshalText(text); err != nil || again != s {
			t.Errorf("%v becomes %v, %v", s, again, err)
		}
	}
	var s Severity
	if err := s.UnmarshalText([]byte("bad")); err == nil || Severity(9).String() != "Severity(9)" {
		t.Errorf("error %v", err)
	}
}

// docs/HEALTH.md lists all settings with their defaults, and all kinds that are ranked.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/HEALTH.md")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := json.Unmarshal(encoded, &defaults); err != nil {
		t.Fatal(err)
	}
	for name, value := range defaults {
		row := fmt.Sprintf("| %#q | %v |", name, value)
		if d, err := time.ParseDuration(fmt.Sprint(value)); err == nil && fmt.Sprint(value) != "0" {
			short := strings.TrimSuffix(d.String(), "0s")
			if d < time.Minute || d%time.Minute != 0 {
				short = d.String()
			}
			row = fmt.Sprintf("| %#q | %s |", name, strings.Replace(short, "h0m", "h", 1))
		}
		if n, ok := value.(float64); ok {
			row = fmt.Sprintf("| %#q | %s |", name, strconv.FormatFloat(n, 'f', -1, 64))
		}
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("the row %q is missing", row)
		}
	}
	for _, kind := range slices.Concat(ranks, slices.Collect(maps.Keys(many))) {
		if !strings.Contains(string(text), "`"+kind+"`") {
			t.Errorf("the kind %s is missing", kind)
		}
	}
}
