package lease

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// Config is what an API works with.
type Config struct {
	Taker *asynq.Taker
	API   *api.API
}

// API hands tasks to workers. It is safe for concurrent use.
type API struct {
	taker *asynq.Taker
	api   *api.API
}

// New makes an API.
func New(cfg Config) *API { return &API{taker: cfg.Taker, api: cfg.API} }

// Routes are the operations of workers.
func (a *API) Routes() []api.Route {
	return []api.Route{
		{Pattern: "POST /v1/take", Scope: auth.Work, Handler: a.take},
		{Pattern: "POST /v1/leases/extend", Scope: auth.Work, Handler: a.extendAll},
		{Pattern: "POST /v1/leases/settle", Scope: auth.Work, Handler: a.settleAll},
		{Pattern: "POST /v1/leases/{lease}/extend", Scope: auth.Work, Handler: a.extendOne},
		{Pattern: "POST /v1/leases/{lease}/done", Scope: auth.Work, Handler: a.doneOne},
		{Pattern: "POST /v1/leases/{lease}/fail", Scope: auth.Work, Handler: a.failOne},
		{Pattern: "POST /v1/leases/{lease}/release", Scope: auth.Work, Handler: a.releaseOne},
	}
}

// usualWait is how long a take waits that does not say.
const usualWait = 30 * time.Second

func (a *API) take(c *api.Call) error {
	body := struct {
		Queues []string      `json:"queues"`
		N      *int          `json:"n"`
		Wait   *api.Duration `json:"wait"`
		Worker string        `json:"worker"`
	}{}
	if err := c.Decode(&body); err != nil {
		return err
	}
	n, wait := 1, min(usualWait, c.Rules.MaxWait)
	if body.N != nil {
		n = *body.N
	}
	if body.Wait != nil {
		wait = min(time.Duration(*body.Wait), c.Rules.MaxWait)
	}
	switch {
	case len(body.Queues) == 0:
		return api.Invalid(api.Wrong{Pointer: "/queues", Detail: "name the queues to take from"})
	case n < 1 || n > c.Rules.MaxTake:
		return api.Invalid(api.Wrong{Pointer: "/n", Detail: "take at least 1 and at most " + strconv.Itoa(c.Rules.MaxTake)})
	}
	if err := c.Count("queues", len(body.Queues)); err != nil {
		return err
	}
	for i, q := range body.Queues {
		if err := api.CheckQueueName(q); err != nil {
			return api.Invalid(api.Wrong{Pointer: "/queues/" + strconv.Itoa(i), Detail: err.Error()})
		}
		if err := c.Admit(q); err != nil {
			return err
		}
		a.api.Touch(q)
	}
	leave, err := a.api.Waiter(c)
	if err != nil {
		return err
	}
	leases, err := a.await(c, n, wait, body.Queues)
	leave()
	if err != nil {
		return err
	}
	if err := c.Recheck(body.Queues...); err != nil {
		a.undo(c, leases, body.Worker, err)
		return err
	}
	return a.hand(c, leases, body.Worker)
}

// await waits for tasks: until there are some, the wait is over, the client goes, or the service ends.
func (a *API) await(c *api.Call, n int, wait time.Duration, queues []string) ([]*asynq.Lease, error) {
	ctx, cancel := context.WithTimeout(c.R.Context(), max(wait, shortestWait))
	defer cancel()
	defer context.AfterFunc(a.api.Ended, cancel)()
	leases, err := a.taker.Take(ctx, n, queues...)
	switch {
	case err == nil:
		return leases, nil
	case c.R.Context().Err() != nil:
		return nil, c.R.Context().Err()
	case ctx.Err() != nil || errors.Is(err, asynq.ErrTakerClosed):
		return nil, nil
	default:
		return nil, err
	}
}

// shortestWait is how long a take waits at least: Redis is asked, and has to answer.
const shortestWait = 100 * time.Millisecond

// hand gives tasks to the client. What cannot be written goes back to its queue.
func (a *API) hand(c *api.Call, leases []*asynq.Lease, worker string) error {
	j := api.NewJSON()
	defer j.Free()
	j.Open('{').Key("tasks").Open('[')
	for _, l := range leases {
		write(j, l)
	}
	j.Close(']').Close('}')
	err := c.R.Context().Err()
	if err == nil {
		err = c.Send(http.StatusOK, j.Bytes())
	}
	if err != nil {
		a.undo(c, leases, worker, err)
	}
	return err
}

// undoTimeout is how long tasks may take to get back to their queues.
const undoTimeout = 10 * time.Second

// undo gives tasks back whose client has gone: the last one first, as each goes to the front.
func (a *API) undo(c *api.Call, leases []*asynq.Lease, worker string, cause error) {
	if len(leases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), undoTimeout)
	defer cancel()
	settlements := make([]asynq.Settlement, 0, len(leases))
	for _, l := range slices.Backward(leases) {
		settlements = append(settlements, asynq.Settlement{Lease: l, Release: true})
	}
	err := errors.Join(a.taker.Settle(ctx, settlements...)...)
	a.api.Log.Warn("tasks given back: their worker has gone, or must not have them", "tasks", len(leases), "token", c.Who.Name, "worker", worker, "cause", cause, "error", err)
}

// write writes a task for a worker.
func write(j *api.JSON, l *asynq.Lease) {
	info := l.Info()
	j.Open('{')
	j.Key("lease").String(pack(l.Queue(), l.ID(), l.Token()))
	j.Key("queue").String(l.Queue())
	j.Key("id").String(l.ID())
	j.Key("type").String(info.Type)
	j.Data("payload", info.Payload)
	j.Headers(info.Headers)
	j.Key("attempt").Int(info.Retried + 1)
	j.Key("max_retry").Int(info.MaxRetry)
	if deadline := l.Deadline(); !deadline.IsZero() {
		j.Key("deadline").Time(deadline)
	}
	j.Key("lease_expires_at").Time(l.ExpiresAt())
	j.Close('}')
}

// find returns the lease that a word stands for, if the caller may have it. Pointer is where the word is.
func (a *API) find(c *api.Call, word, pointer string) (*asynq.Lease, error) {
	queue, id, token, ok := unpack(strings.TrimSpace(word))
	if !ok {
		return nil, api.Invalid(api.Wrong{Pointer: pointer, Detail: "this is no lease: send what came with the task"})
	}
	if !c.Who.Sees(queue) {
		return nil, c.Admit(queue)
	}
	return a.taker.Lease(queue, id, token), nil
}

// results are what became of leases, one by one.
type results struct {
	leases []*asynq.Lease // nil where there is an error
	errs   []error
}

func (a *API) findAll(c *api.Call, words []string, pointer func(i int) string) *results {
	r := &results{make([]*asynq.Lease, len(words)), make([]error, len(words))}
	for i, word := range words {
		r.leases[i], r.errs[i] = a.find(c, word, pointer(i))
	}
	return r
}

// each calls a function with the leases that are there, and keeps its errors.
func (r *results) each(do func(leases []*asynq.Lease, at []int) []error) {
	var found []*asynq.Lease
	var at []int
	for i, l := range r.leases {
		if l != nil {
			found, at = append(found, l), append(at, i)
		}
	}
	if len(found) == 0 {
		return
	}
	for i, err := range do(found, at) {
		r.errs[at[i]] = err
	}
}

// problem is what a client is told of an error that a lease has met with; nil if there is none.
func (a *API) problem(c *api.Call, l *asynq.Lease, err error) *api.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && overdue(l):
		return api.Problemf(http.StatusConflict, api.KindDeadline, "the attempt's deadline has passed: stop, and settle the lease before it ends")
	default:
		return a.api.Trouble(c, err)
	}
}

// overdue reports whether a deadline has passed: that the network took too long is the same error.
func overdue(l *asynq.Lease) bool {
	return l != nil && !l.Deadline().IsZero() && time.Until(l.Deadline()) < time.Second
}

func (a *API) extend(c *api.Call, words []string, pointer func(i int) string) *results {
	r := a.findAll(c, words, pointer)
	r.each(func(leases []*asynq.Lease, _ []int) []error { return a.taker.Extend(c.R.Context(), leases...) })
	return r
}

func (a *API) writeExtended(c *api.Call, j *api.JSON, word string, l *asynq.Lease, err error) {
	j.Open('{')
	j.Key("lease").String(word)
	if p := a.problem(c, l, err); p != nil {
		j.Key("problem").Problem(p)
	} else {
		j.Key("lease_expires_at").Time(l.ExpiresAt())
		if errors.Is(context.Cause(l.Context()), asynq.ErrTaskCanceled) {
			j.Key("canceled").Bool(true)
		}
	}
	j.Close('}')
}

func (a *API) extendAll(c *api.Call) error {
	var body struct {
		Leases []string `json:"leases"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if err := c.Count("leases", len(body.Leases)); err != nil {
		return err
	}
	r := a.extend(c, body.Leases, func(i int) string { return "/leases/" + strconv.Itoa(i) })
	j := api.NewJSON()
	defer j.Free()
	j.Open('{').Key("results").Open('[')
	for i, word := range body.Leases {
		a.writeExtended(c, j, word, r.leases[i], r.errs[i])
	}
	j.Close(']').Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

func (a *API) extendOne(c *api.Call) error {
	word := c.R.PathValue("lease")
	r := a.extend(c, []string{word}, func(int) string { return "/lease" })
	if p := a.problem(c, r.leases[0], r.errs[0]); p != nil {
		return p
	}
	j := api.NewJSON()
	defer j.Free()
	a.writeExtended(c, j, word, r.leases[0], nil)
	return c.Send(http.StatusOK, j.Bytes())
}
