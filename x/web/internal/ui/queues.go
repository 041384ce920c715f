package ui

import (
	"net/http"
	"strconv"
	"strings"
)

// mostQueues is the number of queues per page.
const mostQueues = 200

type queuesBody struct {
	Filter        string
	Trouble       bool // only queues with a cause
	Table         queueTable
	Count         int // matching queues on all pages
	First, Last   int // the range on this page
	Before, After string
	States        []string
}

// queues is the page with all queues.
func (u *UI) queues(r *http.Request) (*view, error) {
	query := r.URL.Query()
	body := queuesBody{Filter: query.Get("name"), Trouble: query.Get("trouble") != "", States: stateNames}
	s := u.Poller.Latest()
	troubled := map[string]bool{}
	for _, c := range s.Health.Causes {
		for _, queue := range c.Queues {
			troubled[queue] = true
		}
	}
	var rows []queueRow
	for _, q := range s.Queues {
		if (troubled[q.Name] || !body.Trouble) && strings.Contains(strings.ToLower(q.Name), strings.ToLower(body.Filter)) {
			rows = append(rows, rowOf(q))
		}
	}
	body.Count = len(rows)
	var err error
	if body.Table, err = u.sortedTable(rows, query); err != nil {
		return nil, err
	}
	page, _ := strconv.Atoi(query.Get("page")) // if missing or invalid: the first page
	page = min(max(page, 1), max(1, (len(rows)+mostQueues-1)/mostQueues))
	from, to := (page-1)*mostQueues, min(page*mostQueues, len(rows))
	body.Table.Rows, body.First, body.Last = rows[from:to], from+1, to
	if page > 1 {
		if body.Before, err = u.link("/queues", "name", body.Filter, "trouble", query.Get("trouble"), "sort", query.Get("sort"), "desc", query.Get("desc"), "page", page-1); err != nil {
			return nil, err
		}
	}
	if to < len(rows) {
		if body.After, err = u.link("/queues", "name", body.Filter, "trouble", query.Get("trouble"), "sort", query.Get("sort"), "desc", query.Get("desc"), "page", page+1); err != nil {
			return nil, err
		}
	}
	return &view{Template: "queues", Title: "Queues", Nav: "/queues", Body: body}, nil
}
