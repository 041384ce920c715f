package apiv2

import (
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// MuteInput mutes a cause.
type MuteInput struct {
	ID    string     `json:"id" doc:"The ID of the cause, as in GET /health, up to 512 bytes."`
	Until *time.Time `json:"until" doc:"Up to 90 days from now. null: acknowledged until the cause is gone."`
	Note  string     `json:"note" doc:"Why it is muted, up to 1,024 bytes."`
}

const longestMute = 90 * 24 * time.Hour

// check returns why the input is invalid.
func (m *MuteInput) check(now time.Time) error {
	switch {
	case m.ID == "" || len(m.ID) > 512:
		return unprocessable("/id", "must have 1 to 512 bytes")
	case len(m.Note) > 1024:
		return unprocessable("/note", "must have up to 1,024 bytes")
	case m.Until != nil && (!m.Until.After(now) || m.Until.Sub(now) > longestMute):
		return unprocessable("/until", "must be in the future, within 90 days")
	}
	return nil
}

func (c *call) muteCause() (any, error) {
	var input MuteInput
	if err := c.read(&input); err != nil {
		return nil, err
	}
	if err := input.check(time.Now()); err != nil {
		return nil, err
	}
	a := access.Action{Verb: access.HealthMute, Cause: input.ID}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	mute := asynq.Mute{ID: input.ID, Note: input.Note}
	if input.Until != nil {
		mute.Until = *input.Until
	}
	if c.api.User != nil {
		mute.By, _ = c.api.User(c.r.Context())
	}
	err := c.api.Inspector.MuteCause(c.r.Context(), mute)
	c.done(a, err)
	return nil, err
}

func (c *call) unmuteCause() (any, error) {
	a := access.Action{Verb: access.HealthMute, Cause: c.id()}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	n, err := c.api.Inspector.UnmuteCause(c.r.Context(), c.id())
	if err == nil && n == 0 {
		err = notFound("the cause is not muted")
	}
	c.done(a, err)
	return nil, err
}
