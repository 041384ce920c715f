package lease

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service/internal/api"
)

// Request bodies of outcomes.
type (
	doneBody struct {
		Result       json.RawMessage `json:"result"`
		ResultText   *string         `json:"result_text"`
		ResultBase64 *string         `json:"result_base64"`
	}
	failBody struct {
		Error     string        `json:"error"`
		RetryIn   *api.Duration `json:"retry_in"`
		SkipRetry bool          `json:"skip_retry"`
	}
	// Embedded structs would appear in the pointers of errors.
	outcome struct {
		Lease        string          `json:"lease"`
		Outcome      string          `json:"outcome"`
		Result       json.RawMessage `json:"result"`
		ResultText   *string         `json:"result_text"`
		ResultBase64 *string         `json:"result_base64"`
		Error        string          `json:"error"`
		RetryIn      *api.Duration   `json:"retry_in"`
		SkipRetry    bool            `json:"skip_retry"`
	}
)

func (o *outcome) hasResult() bool {
	return o.Result != nil || o.ResultText != nil || o.ResultBase64 != nil
}

func (o *outcome) hasFailure() bool { return o.Error != "" || o.RetryIn != nil || o.SkipRetry }

// failure is the error of a worker, and how to retry.
type failure struct {
	text  string
	retry error // SkipRetry, RetryAfter or nil
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.retry }

// settlement converts an outcome.
func (o *outcome) settlement(pointer string) (s asynq.Settlement, p *api.Problem) {
	wrong := func(field, detail string) (asynq.Settlement, *api.Problem) {
		return s, api.Invalid(api.FieldError{Pointer: pointer + "/" + field, Detail: detail})
	}
	if o.Outcome != "done" && o.hasResult() {
		return wrong("result", "allowed only with the outcome done")
	}
	if o.Outcome != "fail" && o.hasFailure() {
		return wrong("error", "error, retry_in and skip_retry are allowed only with the outcome fail")
	}
	switch o.Outcome {
	case "done":
		s.Result, p = (&api.Data{JSON: o.Result, Text: o.ResultText, Base64: o.ResultBase64}).Bytes(pointer, "result")
		return s, p
	case "release":
		s.Release = true
		return s, nil
	case "fail":
		f := &failure{text: o.Error}
		if f.text == "" {
			f.text = "no error given"
		}
		switch {
		case o.SkipRetry && o.RetryIn != nil:
			return wrong("retry_in", "set either retry_in or skip_retry, not both")
		case o.SkipRetry:
			f.retry = asynq.SkipRetry
		case o.RetryIn != nil:
			f.retry = asynq.RetryAfter(time.Duration(*o.RetryIn))
		}
		s.Err = f
		return s, nil
	default:
		return wrong("outcome", `must be "done", "fail" or "release"`)
	}
}

// settleTimeout is how long a settlement may take.
const settleTimeout = 15 * time.Second

func (a *API) settle(c *api.Call, outcomes []outcome, pointers []string) *results {
	handles := make([]string, len(outcomes))
	for i := range outcomes {
		handles[i] = outcomes[i].Lease
	}
	r := a.findAll(c, handles, func(i int) string { return pointers[i] + "/lease" })
	settlements := make([]asynq.Settlement, len(outcomes))
	for i := range outcomes {
		if r.errs[i] != nil {
			continue
		}
		s, p := outcomes[i].settlement(pointers[i])
		if p != nil {
			r.errs[i] = p
			continue
		}
		s.Ref = r.refs[i]
		settlements[i] = s
	}
	// Settle even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.R.Context()), settleTimeout)
	defer cancel()
	r.each(func(at []int) []error {
		given := make([]asynq.Settlement, len(at))
		for i, n := range at {
			given[i] = settlements[n]
		}
		return a.receiver.Settle(ctx, given...)
	})
	return r
}

func writeSettled(j *api.JSON, handle string, p *api.Problem) {
	j.Open('{')
	j.Key("lease").String(handle)
	if p != nil {
		j.Key("problem").Problem(p)
	} else {
		j.Key("ok").Bool(true)
	}
	j.Close('}')
}

func (a *API) settleAll(c *api.Call) error {
	var body struct {
		Outcomes []json.RawMessage `json:"outcomes"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if err := c.Count("outcomes", len(body.Outcomes)); err != nil {
		return err
	}
	outcomes := make([]outcome, len(body.Outcomes))
	pointers := make([]string, len(body.Outcomes))
	for i, text := range body.Outcomes {
		pointers[i] = "/outcomes/" + strconv.Itoa(i)
		if p := api.Unmarshal(text, pointers[i], &outcomes[i]); p != nil {
			return p // without a lease there is no entry to report it in
		}
	}
	r := a.settle(c, outcomes, pointers)
	j := api.NewJSON()
	defer j.Free()
	j.Open('{').Key("results").Open('[')
	for i := range outcomes {
		writeSettled(j, outcomes[i].Lease, a.problem(c, nil, r.errs[i]))
	}
	j.Close(']').Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

func (a *API) settleOne(c *api.Call, o outcome) error {
	o.Lease = c.R.PathValue("lease")
	r := a.settle(c, []outcome{o}, []string{""})
	if p := a.problem(c, nil, r.errs[0]); p != nil {
		return p
	}
	j := api.NewJSON()
	defer j.Free()
	writeSettled(j, o.Lease, nil)
	return c.Send(http.StatusOK, j.Bytes())
}

func (a *API) doneOne(c *api.Call) error {
	var body doneBody
	if err := c.DecodeOptional(&body); err != nil {
		return err
	}
	return a.settleOne(c, outcome{Outcome: "done", Result: body.Result, ResultText: body.ResultText, ResultBase64: body.ResultBase64})
}

func (a *API) failOne(c *api.Call) error {
	var body failBody
	if err := c.DecodeOptional(&body); err != nil {
		return err
	}
	return a.settleOne(c, outcome{Outcome: "fail", Error: body.Error, RetryIn: body.RetryIn, SkipRetry: body.SkipRetry})
}

func (a *API) releaseOne(c *api.Call) error {
	if err := c.DecodeOptional(&struct{}{}); err != nil {
		return err
	}
	return a.settleOne(c, outcome{Outcome: "release"})
}
