package lease

import (
	"net/http"

	"github.com/asynq-go/asynq/x/service/internal/api"
)

// progressOne stores the progress of a task.
func (a *API) progressOne(c *api.Call) error {
	var body struct {
		Fraction *float64 `json:"fraction"`
		Note     string   `json:"note"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if f := body.Fraction; f == nil || *f < 0 || *f > 1 {
		return api.Invalid(api.FieldError{Pointer: "/fraction", Detail: "must be from 0 to 1"})
	}
	handle := c.R.PathValue("lease")
	ref, err := a.find(c, handle, "/lease")
	if err != nil {
		return err
	}
	lease, err := a.receiver.OpenLease(c.R.Context(), ref)
	if err == nil {
		err = lease.SetProgress(c.R.Context(), *body.Fraction, body.Note)
	}
	if p := a.problem(c, lease, err); p != nil {
		return p
	}
	j := api.NewJSON()
	defer j.Free()
	writeSettled(j, handle, nil)
	return c.Send(http.StatusOK, j.Bytes())
}
