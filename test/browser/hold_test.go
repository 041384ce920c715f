package browser_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"

	"github.com/asynq-go/asynq"
)

// point moves the pointer to an element, or to the corner of the window without a selector.
func (b *tab) point(selector string) {
	b.t.Helper()
	at := []float64{1, 1}
	if selector != "" {
		at = eval[[]float64](b, `(() => { const r = document.querySelector(`+quote(selector)+`).getBoundingClientRect(); return [r.left + 5, r.top + r.height / 2]; })()`)
	}
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]})
}

// Below the pointer, cells change and rows stay: the row of a deleted queue gets a line through,
// and new rows wait until the pointer has left the table.
func TestRowsStayUnderThePointer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	add := func(queue string, n int) {
		for range n {
			s.add(t, "a", "", asynq.Queue(queue))
		}
	}
	add("first", 3)
	add("second", 2)
	add("third", 1)
	b := open(t, s.url)
	b.visit("/queues?sort=pending&desc=1")
	const order = `[...document.querySelectorAll("main tbody tr")].map((row) => row.id.replace("queue-", "") + " " + row.querySelector("[data-is=pending]").innerText + (row.matches(".gone") ? " gone" : "")).join()`
	b.until(order + ` === "first 3,second 2,third 1"`)

	b.point("#queue-second th")
	b.until(`document.querySelector("tbody:hover")`)
	add("third", 7)
	add("new", 9)
	if err := s.inspector.DeleteQueue("first", true); err != nil {
		t.Fatal(err)
	}
	b.until(order + ` === "first 3 gone,second 2,third 8"`)
	b.until(`document.querySelector(".scroll").dataset.waits`)
	b.accessible("held rows")

	b.point("")
	b.until(order + ` === "new 9,third 8,second 2"`)
	b.until(`!document.querySelector(".scroll").dataset.waits`)
}

// A row that has the keyboard focus stays where it is as well, and keeps the focus.
func TestFocusedRowsStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "a", "", asynq.Queue("first"))
	s.add(t, "a", "", asynq.Queue("first"))
	s.add(t, "a", "", asynq.Queue("second"))
	b := open(t, s.url)
	b.visit("/queues?sort=pending&desc=1")
	const order = `[...document.querySelectorAll("main tbody tr")].map((row) => row.id.replace("queue-", "") + " " + row.querySelector("[data-is=pending]").innerText).join()`
	b.until(order + ` === "first 2,second 1" && !document.getElementById("hold").hidden`)
	eval[bool](b, `document.querySelector("#queue-second th a").focus({focusVisible: true}), true`)
	for range 3 {
		s.add(t, "a", "", asynq.Queue("second"))
	}
	b.until(order + ` === "first 2,second 4" && document.activeElement === document.querySelector("#queue-second th a")`)
	eval[bool](b, `document.activeElement.blur(), true`)
	b.until(order + ` === "second 4,first 2"`)
}
