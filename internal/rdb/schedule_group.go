package rdb

import (
	"context"
	"fmt"
	"time"
)

// groupTTL is how long Redis remembers that a scheduler group was led, and which ticks of its entries are over. Every lead and
// every tick starts it anew.
const groupTTL = 30 * 24 * time.Hour

// Lead is what Lead answers. Times are unix milliseconds by Redis's clock.
type Lead struct {
	Leads  bool          // the caller
	Now    int64         // when Redis answered
	Until  int64         // when the lease of who leads ends
	Began  int64         // when the term of who leads began
	Vacant time.Duration // for how long nobody had led then; negative if that is not known
}

// Lead asks for the lead of a scheduler group in the name of a process, for the length of a lease in whole milliseconds. Who leads
// asks again before its lease ends. A term began when the lead was taken, and goes on as long as no lease ends.
func (b *Broker) Lead(ctx context.Context, group, process string, lease time.Duration) (Lead, error) {
	c := newCall(leadScript, 1+3).key(b.queues.namespace.SchedulerGroup(group)).
		arg(process, lease.Milliseconds(), seconds(groupTTL))
	b.run(ctx, c)
	v, err := c.ints(5)
	if err != nil {
		return Lead{}, err
	}
	lead := Lead{Leads: v[0] == 1, Now: v[1], Until: v[2], Began: v[3], Vacant: milliseconds(v[4])}
	return lead, nil
}

// Abdicate gives up the lead of a scheduler group, if the process has it.
func (b *Broker) Abdicate(ctx context.Context, group, process string) error {
	c := newCall(abdicateScript, 1+1).key(b.queues.namespace.SchedulerGroup(group)).arg(process)
	b.run(ctx, c)
	code, err := c.int()
	if err != nil {
		return err
	}
	switch Code(code) {
	case CodeOK, CodeLost:
		return nil
	default:
		return fmt.Errorf("rdb: unexpected answer %d of abdicate", code)
	}
}

// ForgetGroup deletes what Redis remembers of a scheduler group, and reports whether it did: not while somebody leads it.
func (b *Broker) ForgetGroup(ctx context.Context, group string) (bool, error) {
	c := newCall(forgetGroupScript, 1).key(b.queues.namespace.SchedulerGroup(group))
	b.run(ctx, c)
	forgotten, err := c.int()
	return forgotten == 1, err
}
