package flow

import (
	"context"
	"fmt"
	"time"
)

// MaxCount is the maximum number of flows that a call of Inspector.Count reads.
const MaxCount = 100_000

// Counts are the numbers of flows, as Inspector.Count returns them.
type Counts struct {
	// Running, Blocked, Succeeded, Failed and Canceled are the flows with the status, among those
	// that were read.
	Running, Blocked, Succeeded, Failed, Canceled StatusCount

	// Unread is the number of flows that are older than those that were read. It may count some
	// that are no longer retained.
	Unread int
}

// StatusCount describes the flows with one status.
type StatusCount struct {
	Flows int
	Age   time.Duration // time since the oldest of them was started; 0 if there is none
	Idle  time.Duration // the longest time since one of them last changed, as Info.Changed; 0 if there is none
}

// Count counts the n flows that were started last, from 1 to MaxCount, by their status. It reads
// three fields of each flow, 1,000 flows at a time; it reads neither their nodes nor their tasks.
func (i *Inspector) Count(ctx context.Context, n int) (*Counts, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if n < 1 || n > MaxCount {
		return nil, fmt.Errorf("flow: count of %d flows, which must be from 1 to %d", n, MaxCount)
	}
	const page = 1000
	c := &Counts{}
	of := map[Status]*StatusCount{
		Running: &c.Running, Blocked: &c.Blocked, Succeeded: &c.Succeeded, Failed: &c.Failed, Canceled: &c.Canceled,
	}
	for read := 0; read < n; {
		want := min(page, n-read)
		p, err := i.broker.ReadFlowHeads(ctx, int64(read), int64(want))
		if err != nil {
			return nil, public(err)
		}
		for _, h := range p.Heads {
			if s := of[Status(h.Status)]; s != nil {
				s.Flows++
				s.Age = max(s.Age, time.Duration(p.Now-h.Created)*time.Millisecond)
				s.Idle = max(s.Idle, time.Duration(p.Now-h.Changed)*time.Millisecond)
			}
		}
		read += p.Listed
		if c.Unread = max(0, p.Total-read); p.Listed < want {
			break
		}
	}
	return c, nil
}
