package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

const settingsCookie = "asynq_settings"

// settings are the display settings of a user. They are stored in a cookie, since there are no
// accounts.
type settings struct {
	Times   string // relative, local or utc
	Pace    string // the minimum number of seconds between live updates; off: none
	Size    int    // rows per page
	Density string // comfortable or compact
	Payload string // auto, json, text or hex
}

var (
	timesChoices   = []choice{{"relative", "Relative, such as 3m ago"}, {"local", "Exact, in the time zone of the browser"}, {"utc", "Exact, in UTC"}}
	paceChoices    = []choice{{"0", "Real time"}, {"5", "Every 5 seconds"}, {"15", "Every 15 seconds"}, {"off", "Off"}}
	sizeChoices    = []choice{{"20", "20"}, {"50", "50"}, {"100", "100"}, {"200", "200"}}
	densityChoices = []choice{{"comfortable", "Comfortable"}, {"compact", "Compact"}}
	payloadChoices = []choice{{"auto", "Auto"}, {"json", "JSON"}, {"text", "Text"}, {"hex", "Hexadecimal"}}
	themeChoices   = []choice{{"", "System"}, {"light", "Light"}, {"dark", "Dark"}}
)

// choice is one value of a setting.
type choice struct{ Value, Name string }

// sizes returns the choices for the rows per page.
func sizes() []int {
	list := make([]int, len(sizeChoices))
	for i, c := range sizeChoices {
		list[i], _ = strconv.Atoi(c.Value) // all choices are numbers
	}
	return list
}

// one returns a value if it is one of the choices, and otherwise the default.
func one(value, preset string, choices []choice) string {
	if slices.ContainsFunc(choices, func(c choice) bool { return c.Value == value }) {
		return value
	}
	return preset
}

// settingsOf reads the settings of the user. Missing and invalid values become the defaults.
func settingsOf(r *http.Request) settings {
	var q url.Values
	if c, err := r.Cookie(settingsCookie); err == nil {
		q, _ = url.ParseQuery(c.Value)
	}
	return readSettings(q)
}

func readSettings(q url.Values) settings {
	size, _ := strconv.Atoi(one(q.Get("size"), "50", sizeChoices)) // all choices are numbers
	return settings{
		Times:   one(q.Get("times"), "relative", timesChoices),
		Pace:    one(q.Get("pace"), "0", paceChoices),
		Size:    size,
		Density: one(q.Get("density"), "comfortable", densityChoices),
		Payload: one(q.Get("payload"), "auto", payloadChoices),
	}
}

func (s settings) encode() string {
	return url.Values{
		"times": {s.Times}, "pace": {s.Pace}, "size": {strconv.Itoa(s.Size)}, "density": {s.Density}, "payload": {s.Payload},
	}.Encode()
}

// setting is a group of choices on the page.
type setting struct {
	Name, Title, Hint, Chosen string
	Choices                   []choice
}

type settingsBody struct {
	Settings            []setting
	User                access.User
	ReadOnly            bool
	Root                string
	Version, Go, Source string
	Redis               string
}

// settings is the page with the settings and the user's access.
func (u *UI) settings(r *http.Request) (*view, error) {
	s := settingsOf(r)
	body := settingsBody{User: access.UserFrom(r.Context()), ReadOnly: u.ReadOnly, Root: cmp.Or(u.Root, "/"), Go: runtime.Version(), Redis: u.Poller.Latest().Redis.Version}
	body.Version, body.Source = version()
	body.Settings = []setting{
		{"theme", "Theme", "", theme(r), themeChoices},
		{"times", "Times", "Hover a time to see the other format. Without scripts, exact times are in UTC.", s.Times, timesChoices},
		{"pace", "Live updates", "Redis is polled once for all tabs. The button in the top bar pauses updates of one tab.", s.Pace, paceChoices},
		{"size", "Rows per page", "", strconv.Itoa(s.Size), sizeChoices},
		{"density", "Density", "In all tables.", s.Density, densityChoices},
		{"payload", "Payloads", "The initial format. Each task page offers the others.", s.Payload, payloadChoices},
	}
	return &view{Template: "settings", Title: "Settings", Nav: "/settings", Body: body, Still: true}, nil
}

// changeSettings stores the settings. They affect only this browser, so View is enough.
func (u *UI) changeSettings(w http.ResponseWriter, r *http.Request) (*view, error) {
	if !u.Gate.Allow(w, r, access.Action{Verb: access.View}) {
		return nil, nil
	}
	const years = 10 * 365 * 24 * 3600
	if r.PostForm.Get("do") == "forget" {
		http.SetCookie(w, u.cookie(r, settingsCookie, "", -1))
		http.SetCookie(w, u.cookie(r, themeCookie, "", -1))
		u.say(w, r, flash{Text: "All settings are reset."})
		return u.to(w, r, "/settings")
	}
	http.SetCookie(w, u.cookie(r, settingsCookie, readSettings(r.PostForm).encode(), years))
	http.SetCookie(w, u.cookie(r, themeCookie, one(r.PostForm.Get("theme"), "", themeChoices), years))
	u.say(w, r, flash{Text: "The settings are saved in this browser."})
	return u.to(w, r, "/settings")
}

// version returns the version of the module and the commit that the program was built from, if
// known.
func version() (module, source string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	const path = "github.com/asynq-go/asynq"
	for _, dep := range append(info.Deps, &info.Main) {
		if dep.Path == path && dep.Version != "v0.0.0" && dep.Version != "(devel)" {
			module = dep.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			source = s.Value
		}
	}
	return module, source
}
