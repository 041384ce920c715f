package ui

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// causeBox is a cause as pages show it.
type causeBox struct {
	*health.Cause
	Anchor  string // unique on a page
	First   bool   // the most severe one: its evidence is visible
	Actions []causeAction
}

// ShortTitle returns the title with long names of queues clipped.
func (b causeBox) ShortTitle() string {
	title := b.Title
	for _, queue := range b.Queues[:min(len(b.Queues), 1)] {
		title = strings.ReplaceAll(title, strconv.Quote(queue), strconv.Quote(show.Clip(queue, 60)))
	}
	return title
}

// causeAction is an action with what a template needs.
type causeAction struct {
	health.Action
	Verb access.Verb
	Form string // value of the button of the form of a queue; empty: a link
	URL  string // of a link
}

// causeBoxes returns causes as pages show them.
func (u *UI) causeBoxes(causes []health.Cause) []causeBox {
	boxes := make([]causeBox, len(causes))
	for n := range causes {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(causes[n].ID)) // never fails
		boxes[n] = causeBox{Cause: &causes[n], First: n == 0 && causes[n].Mute == nil, Anchor: strconv.FormatUint(sum.Sum64(), 36)}
		for _, a := range causes[n].Actions {
			if action, ok := u.causeAction(a); ok {
				boxes[n].Actions = append(boxes[n].Actions, action)
			}
		}
	}
	return boxes
}

// causesThat returns the causes of the latest snapshot that match.
func (u *UI) causesThat(match func(*health.Cause) bool) []causeBox {
	var found []health.Cause
	for _, c := range u.Poller.Latest().Health.Causes {
		if match(&c) {
			found = append(found, c)
		}
	}
	return u.causeBoxes(found)
}

func (u *UI) causeAction(a health.Action) (causeAction, bool) {
	action, err := causeAction{Action: a, Verb: access.View}, error(nil)
	switch a.Kind {
	case health.PauseQueue:
		action.Verb, action.Form = access.QueuePause, "pause"
	case health.ResumeQueue:
		action.Verb, action.Form = access.QueueResume, "resume"
	case health.SeeErrors:
		action.URL, err = u.link("/errors", "queue", a.Queue)
	case health.RunArchived:
		action.Verb = access.TaskRun
		action.URL, err = u.link("/tasks", "queue", a.Queue, "state", "archived")
	default:
		return action, false
	}
	return action, err == nil
}

// actionWord names an action on a button.
func actionWord(kind health.ActionKind) string {
	switch kind {
	case health.PauseQueue:
		return "Pause queue"
	case health.ResumeQueue:
		return "Resume queue"
	case health.SeeErrors:
		return "See errors"
	case health.RunArchived:
		return "Run archived tasks"
	}
	return string(kind)
}

// healthLink returns the URL of details.
func (u *UI) healthLink(l health.Link) (string, error) {
	switch l.Page {
	case health.PageQueue:
		return u.link("/queue", "queue", l.Queue)
	case health.PageTask:
		if l.Task == "" {
			return u.link("/queue", "queue", l.Queue)
		}
		return u.link("/task", "queue", l.Queue, "id", l.Task)
	case health.PageTasks:
		return u.link("/tasks", "queue", l.Queue, "state", l.State)
	case health.PageErrors:
		return u.link("/errors", "queue", l.Queue)
	case health.PageServers:
		return u.link("/servers")
	case health.PageSchedulers:
		return u.link("/schedulers")
	case health.PageRedis:
		return u.link("/redis")
	default:
		return u.link("/queues", "trouble", "yes")
	}
}

// causeChart returns a small chart of a metric.
func (u *UI) causeChart(s *health.Series) template.HTML {
	metric, ok := poll.ParseMetric(s.Metric)
	if !ok {
		return ""
	}
	lines := u.Poller.History(s.Queue, []poll.Metric{metric}, sparkSpan)
	return spark(s.Metric, lines.Values[metric])
}

// changeHealth mutes and unmutes causes.
func (u *UI) changeHealth(w http.ResponseWriter, r *http.Request) (*view, error) {
	id, do := r.PostForm.Get("id"), r.PostForm.Get("do")
	until, known := map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "acknowledge": 0, "unmute": 0}[do]
	if !known || id == "" {
		return nil, invalid("Unknown action %q: a cause can be muted for an hour or a day, acknowledged, or unmuted.", do)
	}
	action := access.Action{Verb: access.HealthMute, Cause: id}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	mute := asynq.Mute{ID: id, By: access.UserFrom(r.Context()).Name}
	if until > 0 {
		mute.Until = u.now().Add(until)
	}
	var err error
	said := "Muted. It is listed under muted causes."
	if do == "unmute" {
		said = "Unmuted."
		_, err = inspector.UnmuteCause(r.Context(), id)
	} else {
		err = inspector.MuteCause(r.Context(), mute)
	}
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	if err != nil {
		u.say(w, r, flash{Text: sentence(fmt.Sprint(err)), Bad: true})
	} else {
		u.say(w, r, flash{Text: said})
	}
	return u.to(w, r, "/")
}
