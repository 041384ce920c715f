package apiv1

import "github.com/asynq-go/asynq"

type groupState struct {
	Group string `json:"group"`
	Size  int    `json:"size"`
}

func newGroups(groups []*asynq.GroupInfo) []groupState {
	all := make([]groupState, len(groups))
	for n, g := range groups {
		all[n] = groupState{g.Group, g.Size}
	}
	return all
}

// groups lists the groups of a queue.
func (h *handler) groups(x *exchange) {
	if !h.mayView(x) {
		return
	}
	groups, err := x.inspector.Groups(x.args.queue)
	if err != nil {
		h.fail(x, err)
		return
	}
	info, err := x.inspector.GetQueueInfo(x.args.queue)
	if err != nil {
		h.fail(x, err)
		return
	}
	h.answer(x, struct {
		Stats  queueState   `json:"stats"`
		Groups []groupState `json:"groups"`
	}{newQueueState(info), newGroups(groups)})
}
