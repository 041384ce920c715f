package lease

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// Config configures an API.
type Config struct {
	Receiver *asynq.Receiver
	API      *api.API
}

// API serves the operations of workers. It is safe for concurrent use.
type API struct {
	receiver *asynq.Receiver
	api      *api.API
}

// New returns an API.
func New(cfg Config) *API { return &API{receiver: cfg.Receiver, api: cfg.API} }

// Routes returns the operations of workers.
func (a *API) Routes() []api.Route {
	return []api.Route{
		{Pattern: "POST /v1/take", Scope: auth.Work, Handler: a.take},
		{Pattern: "POST /v1/leases/extend", Scope: auth.Work, Handler: a.extendAll},
		{Pattern: "POST /v1/leases/settle", Scope: auth.Work, Handler: a.settleAll},
		{Pattern: "POST /v1/leases/{lease}/extend", Scope: auth.Work, Handler: a.extendOne},
		{Pattern: "POST /v1/leases/{lease}/progress", Scope: auth.Work, Handler: a.progressOne},
		{Pattern: "POST /v1/leases/{lease}/done", Scope: auth.Work, Handler: a.doneOne},
		{Pattern: "POST /v1/leases/{lease}/fail", Scope: auth.Work, Handler: a.failOne},
		{Pattern: "POST /v1/leases/{lease}/release", Scope: auth.Work, Handler: a.releaseOne},
	}
}

// defaultWait is the wait of a take that does not set one.
const defaultWait = 30 * time.Second

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
	n, wait := 1, min(defaultWait, c.Rules.MaxWait) // Shorten applies to explicit waits only
	if body.N != nil {
		n = *body.N
	}
	if body.Wait != nil {
		wait = c.Shorten(time.Duration(*body.Wait))
	}
	switch {
	case len(body.Queues) == 0:
		return api.Invalid(api.FieldError{Pointer: "/queues", Detail: "must name at least one queue"})
	case n < 1 || n > c.Rules.MaxTake:
		return api.Invalid(api.FieldError{Pointer: "/n", Detail: "must be from 1 to " + strconv.Itoa(c.Rules.MaxTake)})
	}
	if err := c.Count("queues", len(body.Queues)); err != nil {
		return err
	}
	worker, wrong := workerName(c, body.Worker)
	if wrong != "" {
		return api.Invalid(api.FieldError{Pointer: "/worker", Detail: wrong})
	}
	for i, q := range body.Queues {
		if err := api.CheckQueueName(q); err != nil {
			return api.Invalid(api.FieldError{Pointer: "/queues/" + strconv.Itoa(i), Detail: err.Error()})
		}
		if err := c.Admit(q); err != nil {
			return err
		}
	}
	leave, err := a.api.Waiter(c, len(body.Queues))
	if err != nil {
		return err
	}
	leases, err := a.await(c, worker, n, wait, body.Queues)
	leave()
	if err != nil {
		return err
	}
	for _, l := range leases {
		a.api.Touch(l.Queue()) // only queues that exist: waiting for others costs nothing
	}
	if err := c.Recheck(body.Queues...); err != nil {
		a.returnTasks(c, leases, worker, err)
		return err
	}
	return a.deliver(c, leases, worker)
}

// await waits until there are tasks, the wait is over, the client disconnects, or the service shuts
// down.
func (a *API) await(c *api.Call, worker string, n int, wait time.Duration, queues []string) ([]*asynq.Lease, error) {
	ctx, cancel := context.WithTimeout(c.R.Context(), max(wait, minWait))
	defer cancel()
	defer context.AfterFunc(a.api.Ended, cancel)()
	leases, err := a.receiver.ReceiveAs(ctx, worker, n, queues...)
	switch {
	case err == nil:
		return leases, nil
	case c.R.Context().Err() != nil:
		return nil, c.R.Context().Err()
	case ctx.Err() != nil || errors.Is(err, asynq.ErrReceiverClosed):
		return nil, nil
	default:
		return nil, err
	}
}

// maxWorkerName is the maximum length of a worker name in bytes.
const maxWorkerName = 200

// workerName returns the name of a worker in lists: the one that it sent, or else that of its
// token.
func workerName(c *api.Call, name string) (_, wrong string) {
	switch {
	case name == "":
		// A token name may contain any characters.
		return cmp.Or(printable(c.Who.Name), "unnamed"), ""
	case printable(name) != name:
		return "", "must be printable text of at most " + strconv.Itoa(maxWorkerName) + " bytes"
	}
	return name, ""
}

// printable removes characters that worker names must not contain, and truncates text to
// maxWorkerName.
func printable(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	for len(text) > maxWorkerName {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// minWait is the minimum wait of a take: Redis needs time to respond.
const minWait = 100 * time.Millisecond

// deliver sends tasks to the client. If that fails, the tasks return to their queues.
func (a *API) deliver(c *api.Call, leases []*asynq.Lease, worker string) error {
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
		a.returnTasks(c, leases, worker, err)
	}
	return err
}

// returnTimeout is how long returning tasks to their queues may take.
const returnTimeout = 10 * time.Second

// returnTasks returns undelivered tasks to the front of their queues, the last one first to keep
// their order.
func (a *API) returnTasks(c *api.Call, leases []*asynq.Lease, worker string, cause error) {
	if len(leases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), returnTimeout)
	defer cancel()
	settlements := make([]asynq.Settlement, 0, len(leases))
	for _, l := range slices.Backward(leases) {
		settlements = append(settlements, asynq.Settlement{Lease: l, Release: true})
	}
	err := errors.Join(a.receiver.Settle(ctx, settlements...)...)
	a.api.Log.Warn("undelivered tasks returned to their queues", "tasks", len(leases), "token", c.Who.Name, "worker", worker, "cause", cause, "error", err)
}

// write writes a leased task.
func write(j *api.JSON, l *asynq.Lease) {
	info := l.Info()
	j.Open('{')
	j.Key("lease").String(encode(handle{l.Queue(), l.ID(), l.Worker(), l.Token()}))
	j.Key("queue").String(l.Queue())
	j.Key("id").String(l.ID())
	j.Key("type").String(info.Type)
	j.Data("payload", info.Payload)
	j.Headers(info.Headers)
	if info.PartitionKey != "" {
		j.Key("partition_key").String(info.PartitionKey)
	}
	if m, ok := flow.FromContext(l.Context()); ok {
		j.Key("workflow").String(m.FlowID())
		j.Key("node").String(m.Node())
	}
	j.Key("attempt").Int(info.Retried + 1)
	j.Key("max_retry").Int(info.MaxRetry)
	if deadline := l.Deadline(); !deadline.IsZero() {
		j.Key("deadline").Time(deadline)
	}
	j.Key("lease_expires_at").Time(l.ExpiresAt())
	j.Close('}')
}

// find decodes a lease and checks the caller's access to its queue. Pointer is its position in the
// body.
func (a *API) find(c *api.Call, text, pointer string) (ref asynq.LeaseRef, err error) {
	w, ok := decode(strings.TrimSpace(text))
	if !ok {
		return ref, api.Invalid(api.FieldError{Pointer: pointer, Detail: "invalid lease: send the lease that was returned with the task"})
	}
	if !c.Who.HasAccess(w.queue) {
		return ref, c.Admit(w.queue)
	}
	return asynq.LeaseRef{Queue: w.queue, ID: w.id, Token: w.token, Worker: w.worker}, nil
}

// results holds a reference or an error per entry.
type results struct {
	refs   []asynq.LeaseRef
	leases []*asynq.Lease // set by extend; nil if there is an error
	errs   []error
}

func (a *API) findAll(c *api.Call, handles []string, pointer func(i int) string) *results {
	n := len(handles)
	r := &results{make([]asynq.LeaseRef, n), make([]*asynq.Lease, n), make([]error, n)}
	for i, handle := range handles {
		r.refs[i], r.errs[i] = a.find(c, handle, pointer(i))
	}
	return r
}

// each calls do with the positions of the entries without an error, and stores the errors that it
// returns.
func (r *results) each(do func(at []int) []error) {
	var at []int
	for i, err := range r.errs {
		if err == nil {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	for i, err := range do(at) {
		r.errs[at[i]] = err
	}
}

// problem converts an error of a lease; nil if err is nil.
func (a *API) problem(c *api.Call, l *asynq.Lease, err error) *api.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && overdue(l):
		return api.Problemf(http.StatusConflict, api.KindDeadline, "the deadline of the attempt has passed: stop and settle the lease before it expires")
	default:
		return a.api.PartialProblem(c, err)
	}
}

// overdue reports whether the deadline of the attempt has passed. A network timeout is the same
// error.
func overdue(l *asynq.Lease) bool {
	return l != nil && !l.Deadline().IsZero() && time.Until(l.Deadline()) < time.Second
}

func (a *API) extend(c *api.Call, handles []string, pointer func(i int) string) *results {
	r := a.findAll(c, handles, pointer)
	r.each(func(at []int) []error {
		refs := make([]asynq.LeaseRef, len(at))
		for i, n := range at {
			refs[i] = r.refs[n]
		}
		leases, errs := a.receiver.OpenLeases(c.R.Context(), refs...)
		for i, n := range at {
			r.leases[n] = leases[i]
		}
		return errs
	})
	r.each(func(at []int) []error {
		leases := make([]*asynq.Lease, len(at))
		for i, n := range at {
			leases[i] = r.leases[n]
		}
		return a.receiver.Extend(c.R.Context(), leases...)
	})
	return r
}

func (a *API) writeExtended(c *api.Call, j *api.JSON, handle string, l *asynq.Lease, err error) {
	j.Open('{')
	j.Key("lease").String(handle)
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
	for i, handle := range body.Leases {
		a.writeExtended(c, j, handle, r.leases[i], r.errs[i])
	}
	j.Close(']').Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

func (a *API) extendOne(c *api.Call) error {
	handle := c.R.PathValue("lease")
	r := a.extend(c, []string{handle}, func(int) string { return "/lease" })
	if p := a.problem(c, r.leases[0], r.errs[0]); p != nil {
		return p
	}
	j := api.NewJSON()
	defer j.Free()
	a.writeExtended(c, j, handle, r.leases[0], nil)
	return c.Send(http.StatusOK, j.Bytes())
}
