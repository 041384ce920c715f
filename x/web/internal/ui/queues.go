package ui

import (
	"net/http"
	"strings"
)

type queuesBody struct {
	Filter string
	Rows   []queueRow
	States []string
}

// queues is the list of all queues.
func (u *UI) queues(r *http.Request) (*view, error) {
	body := queuesBody{Filter: r.URL.Query().Get("name"), States: stateNames}
	for _, q := range u.Poller.Latest().Queues {
		if strings.Contains(strings.ToLower(q.Name), strings.ToLower(body.Filter)) {
			body.Rows = append(body.Rows, rowOf(q))
		}
	}
	return &view{Template: "queues", Title: "Queues", Nav: "/queues", Body: body}, nil
}
