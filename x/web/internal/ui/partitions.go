package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/internal/share"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

const (
	partitionsAPage = 100
	// mostPartitions is the number of partitions that a page reads, in 200 a call.
	mostPartitions = 20_000
)

type partitionsBody struct {
	Queue, Filter string
	Columns       []heading
	Rows          []partitionRow
	Pages         pager
	Held, Active  int // of all partitions that match the filter
	Cut           bool
	NoShares      bool // the weight of some is not known
}

// partitionRow is a partition in a table.
type partitionRow struct {
	*asynq.PartitionInfo
	Share float64 // of the queue, while all listed partitions have tasks; 0: unknown
}

// Name returns the key of the partition, or a text for the tasks without one.
func (r partitionRow) Name() string { return partitionName(r.Key) }

func partitionName(key string) string {
	if key == "" {
		return "tasks without a key"
	}
	return key
}

// Why returns why the tasks of the partition wait.
func (r partitionRow) Why() string {
	switch {
	case r.Settings.Paused:
		return "paused"
	case r.IsBlocked:
		return "at its limit"
	case r.Held > 0:
		return "in turn"
	}
	return ""
}

// Limits returns the limits that the partition has of its own, or "".
func (r partitionRow) Limits() string {
	var parts []string
	switch n := r.Settings.Concurrency; {
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d at once", n))
	case n < 0:
		parts = append(parts, "no concurrency limit")
	}
	switch rate := r.Settings.Rate; {
	case rate.Events > 0:
		parts = append(parts, fmt.Sprintf("%d per %s", rate.Events, show.Duration(rate.Per)))
	case rate.Events < 0:
		parts = append(parts, "no rate")
	}
	if w := r.Settings.Weight; w > 0 {
		parts = append(parts, "weight "+strconv.FormatFloat(w, 'g', -1, 64))
	}
	return strings.Join(parts, ", ")
}

// queueOf returns the name of the queue of a page. A blank one names no queue.
func queueOf(r *http.Request) (string, error) {
	name := r.URL.Query().Get("queue")
	if strings.TrimSpace(name) == "" {
		return "", notFound("There is no queue %q. A queue is created by its first task.", name)
	}
	return name, nil
}

// partitions is the page with the partitions of a queue that have tasks.
func (u *UI) partitions(r *http.Request) (*view, error) {
	queue, err := queueOf(r)
	if err != nil {
		return nil, err
	}
	body := partitionsBody{Queue: queue, Filter: r.URL.Query().Get("key")}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	shares := share.Of(body.Queue, u.Poller.Latest().Servers)
	for p, err := range survey.AtMost(mostPartitions, &body.Cut, u.Inspector.Partitions(ctx, body.Queue)) {
		if err != nil {
			return nil, err
		}
		shares.Add(p)
		if strings.Contains(strings.ToLower(partitionName(p.Key)), strings.ToLower(body.Filter)) {
			body.Rows = append(body.Rows, partitionRow{PartitionInfo: p})
			body.Held, body.Active = body.Held+p.Held, body.Active+p.Active
		}
	}
	body.NoShares = !shares.Known()
	for n := range body.Rows {
		body.Rows[n].Share = shares.Part(body.Rows[n].PartitionInfo)
	}
	sorts := []sorting[partitionRow]{
		{"key", "Partition", "", func(a, b partitionRow) int { return strings.Compare(b.Key, a.Key) }},
		{"held", "Held", "n", func(a, b partitionRow) int { return cmp.Compare(a.Held, b.Held) }},
		{"active", "Active", "n", func(a, b partitionRow) int { return cmp.Compare(a.Active, b.Active) }},
		{"wait", "Oldest wait", "n", func(a, b partitionRow) int { return cmp.Compare(a.Latency, b.Latency) }},
		{"share", "Share", "n", func(a, b partitionRow) int { return cmp.Compare(a.Share, b.Share) }},
		{"", "Waits", "", nil},
		{"", "Own limits", "", nil},
	}
	if body.Columns, err = sortBy(u, r, body.Rows, sorts, "held"); err != nil {
		return nil, err
	}
	body.Rows, body.Pages, err = pageOf(u, r, body.Rows, partitionsAPage)
	return &view{Template: "partitions", Title: "Partitions of " + body.Queue, Nav: "/queues", Body: body}, err
}

type partitionBody struct {
	Queue string
	partitionRow

	Concurrency, Rate, Per, Burst, Weight string // of the form
}

// partition is the page of one partition.
func (u *UI) partition(r *http.Request) (*view, error) {
	queue, err := queueOf(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	p, err := u.Inspector.GetPartitionInfo(ctx, queue, r.URL.Query().Get("key"))
	if err != nil {
		return nil, err
	}
	body := partitionBody{Queue: queue, partitionRow: partitionRow{PartitionInfo: p}, Per: "1s"}
	if n := p.Settings.Concurrency; n != 0 {
		body.Concurrency = strconv.Itoa(max(n, 0))
	}
	if rate := p.Settings.Rate; rate.Events != 0 {
		body.Rate = strconv.Itoa(max(rate.Events, 0))
		if rate.Events > 0 {
			body.Per, body.Burst = rate.Per.String(), strconv.Itoa(max(rate.Burst, 1))
		}
	}
	if w := p.Settings.Weight; w != 0 {
		body.Weight = strconv.FormatFloat(w, 'g', -1, 64)
	}
	return &view{Template: "partition", Title: partitionName(p.Key), Nav: "/queues", Body: body}, nil
}

// partitionForm reads the settings of a form. Empty fields are those of the queue, and 0 is no
// limit.
func partitionForm(r *http.Request) (s asynq.PartitionSettings, err error) {
	number := func(name, what string) (n int, set bool, err error) {
		text := strings.TrimSpace(r.PostForm.Get(name))
		if text == "" {
			return 0, false, nil
		}
		n, err = strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, false, invalid("%s must be a number of at least 0, or empty for that of the queue.", what)
		}
		return n, true, nil
	}
	n, set, err := number("concurrency", "The concurrency")
	if err != nil {
		return s, err
	}
	if set {
		s.Concurrency = cmp.Or(n, -1)
	}
	events, set, err := number("rate", "The rate")
	if err != nil {
		return s, err
	}
	burst, _, err := number("burst", "The burst")
	if err != nil {
		return s, err
	}
	switch {
	case set && events == 0:
		s.Rate.Events = -1
	case set:
		per, err := time.ParseDuration(cmp.Or(strings.TrimSpace(r.PostForm.Get("per")), "1s"))
		if err != nil {
			return s, invalid("The period of the rate must be a duration, such as 1s or 10m.")
		}
		s.Rate = asynq.RateLimit{Events: events, Per: per, Burst: burst}
	}
	if text := strings.TrimSpace(r.PostForm.Get("weight")); text != "" {
		if s.Weight, err = strconv.ParseFloat(text, 64); err != nil || !(s.Weight > 0) {
			return s, invalid("The weight must be a number greater than 0, or empty for that of the queue.")
		}
	}
	return s, nil
}

// partitionChange is a change of a partition, with its question and its result.
type partitionChange struct {
	action access.Action
	ask    question // without a Title, the change needs no confirmation
	do     func(ctx context.Context, i *asynq.Inspector) (said string, err error)
}

// partitionChange returns the change of a form.
func (u *UI) partitionChange(r *http.Request, queue, key string) (c partitionChange, err error) {
	c.action = access.Action{Verb: access.PartitionSet, Queue: queue, Part: &key}
	name := partitionName(key)
	switch do := r.PostForm.Get("do"); do {
	case "pause":
		c.do = func(ctx context.Context, i *asynq.Inspector) (string, error) {
			return "Partition paused. Its active tasks continue.", i.PausePartition(ctx, queue, key)
		}
	case "resume":
		c.do = func(ctx context.Context, i *asynq.Inspector) (string, error) {
			return "Partition resumed.", i.ResumePartition(ctx, queue, key)
		}
	case "set":
		settings, err := partitionForm(r)
		if err != nil {
			return c, err
		}
		c.do = func(ctx context.Context, i *asynq.Inspector) (string, error) {
			return "Limits saved. Servers honor them within a second.", i.UpdatePartition(ctx, queue, key, func(s *asynq.PartitionSettings) error {
				settings.Paused = s.Paused
				*s = settings
				return nil
			})
		}
	case "cancel":
		c.action.Verb, c.action.State = access.TaskCancel, asynq.TaskStateActive.String()
		c.ask = question{
			Title: "Cancel the active tasks of " + name + "?", Button: "Cancel tasks", Harm: true,
			Text: []string{"The contexts of their handlers end. The tasks are then retried, as after an error."},
		}
		c.do = func(ctx context.Context, i *asynq.Inspector) (string, error) {
			n, err := i.CancelPartitionTasks(ctx, queue, key)
			return "Cancellation requested of " + strings.ToLower(show.Plural(int64(n), "task")) + ".", err
		}
	case "delete":
		c.action.Verb = access.TaskDelete
		c.ask = question{
			Title: "Delete the tasks of " + name + "?", Button: "Delete tasks", Harm: true,
			Text: []string{"Tasks that wait are deleted, and active ones are canceled and then deleted. Archived and completed ones remain. This cannot be undone."},
		}
		c.do = func(ctx context.Context, i *asynq.Inspector) (string, error) {
			n, err := i.DeletePartitionTasks(ctx, queue, key)
			return strings.ToLower(show.Plural(int64(n), "task")) + " deleted.", err
		}
	default:
		return c, invalid("Unknown action %q: a partition can be changed, paused and resumed, and its tasks canceled and deleted.", do)
	}
	return c, nil
}

// changePartition changes a partition or its tasks.
func (u *UI) changePartition(w http.ResponseWriter, r *http.Request) (*view, error) {
	queue, key := r.PostForm.Get("queue"), r.PostForm.Get("key")
	c, err := u.partitionChange(r, queue, key)
	if err != nil {
		return nil, err
	}
	if !u.Gate.Allow(w, r, c.action) {
		return nil, nil
	}
	if c.ask.Title != "" && r.PostForm.Get("confirm") != "yes" {
		c.ask.Action = "/partition"
		c.ask.Fields = []field{{"do", r.PostForm.Get("do")}, {"queue", queue}, {"key", key}, {"back", r.PostForm.Get("back")}}
		return u.ask(r, c.ask)
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	said, err := c.do(ctx, u.Inspector.WithContext(ctx))
	u.report(w, r, c.action, err, said)
	return nil, nil
}
