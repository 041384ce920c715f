package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

type groupsBody struct {
	Queue, Filter string
	Queues        []string
	Groups, Tasks int // of all groups that match the filter
	Columns       []heading
	Rows          []survey.Group
	Pages         pager
	Broken        []survey.Broken
	Error         string
	Filtered      bool
}

const groupsAPage = 100

// groups is the page with the groups that contain tasks.
func (u *UI) groups(r *http.Request) (*view, error) {
	body := groupsBody{Queue: r.URL.Query().Get("queue"), Filter: r.URL.Query().Get("name")}
	body.Filtered = body.Queue != "" || body.Filter != ""
	groups, err := u.Survey.Groups(r.Context())
	if err == nil && groups == nil {
		err = u.Poller.Latest().Err
	}
	if err != nil {
		body.Error = sentence(show.RedisError(err))
	}
	if groups == nil {
		groups = &survey.Groups{}
	}
	body.Broken = groups.Broken
	filter := strings.ToLower(body.Filter)
	for _, g := range groups.Rows {
		if len(body.Queues) == 0 || body.Queues[len(body.Queues)-1] != g.Queue {
			body.Queues = append(body.Queues, g.Queue)
		}
		if (body.Queue == "" || g.Queue == body.Queue) && strings.Contains(strings.ToLower(g.Name), filter) {
			body.Rows = append(body.Rows, g)
			body.Tasks += g.Size
		}
	}
	body.Groups = len(body.Rows)
	sorts := []sorting[survey.Group]{
		{"group", "Group", "", func(a, b survey.Group) int { return strings.Compare(b.Name, a.Name) }},
		{"queue", "Queue", "", func(a, b survey.Group) int { return strings.Compare(b.Queue, a.Queue) }},
		{"tasks", "Tasks", "n", func(a, b survey.Group) int { return cmp.Compare(a.Size, b.Size) }},
		{"oldest", "Oldest task", "n", func(a, b survey.Group) int { return b.Oldest.Compare(a.Oldest) }},
	}
	if body.Columns, err = sortBy(u, r, body.Rows, sorts, "tasks"); err != nil {
		return nil, err
	}
	body.Rows, body.Pages, err = pageOf(u, r, body.Rows, groupsAPage)
	return &view{Template: "groups", Title: "Groups", Nav: "/groups", Body: body}, err
}

// changeGroup runs, archives or deletes all tasks of a group.
func (u *UI) changeGroup(w http.ResponseWriter, r *http.Request) (*view, error) {
	queue, group := r.PostForm.Get("queue"), r.PostForm.Get("group")
	kind := bulk.Kind(r.PostForm.Get("do"))
	if !slices.Contains(bulk.Kinds(asynq.TaskStateAggregating), kind) {
		return nil, invalid("Unknown action %q: the tasks of a group can be run, archived or deleted.", kind)
	}
	if queue == "" || group == "" {
		return nil, invalid("The parameters queue and group are required.")
	}
	groups, err := u.Survey.Groups(r.Context())
	if err != nil && groups == nil {
		return nil, err
	}
	c := bulkChange{
		Kind: kind, Of: "of group " + group, Action: "/groups", Fields: []field{{"queue", queue}, {"group", group}},
		Text: []string{"They are waiting in queue " + queue + " to be aggregated."}, Back: strings.TrimPrefix(u.back(r), u.Root),
	}
	if c.Back == "/" {
		c.Back = "/groups"
	}
	for _, g := range groups.Rows {
		if g.Queue == queue && g.Name == group {
			c.N, c.Counts = g.Size, map[string]int{queue: g.Size}
			c.Specs = []bulk.Spec{{Kind: kind, Queue: queue, State: asynq.TaskStateAggregating.String(), Group: group}}
		}
	}
	return u.carryOut(w, r, c)
}
