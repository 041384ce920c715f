package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

const (
	// flowInterval is how often a flow starts.
	flowInterval = 12 * time.Second
	// flowRetention is how long a flow is kept after its end.
	flowRetention = 10 * time.Minute
	// flowPrefix is how the IDs of the flows begin.
	flowPrefix = "order-"
)

// flow returns the flow of an order: it is paid, its items are packed, and it is shipped. If an
// item is missing, the customer gets a refund. In any case, there is an invoice.
func (s *shop) flow() *flow.Flow {
	order := s.nextOrder()
	payload := func(more map[string]any) []byte {
		more["order_id"] = order
		return encode(more)
	}
	f := flow.New(fmt.Sprint(flowPrefix, order)).Retention(flowRetention)
	pay := f.Add("pay", asynq.NewTask("payment:reserve", payload(map[string]any{"amount_cents": 500 + s.IntN(40_000)})),
		asynq.Queue(critical), asynq.MaxRetry(3))
	var items []*asynq.Task
	for _, i := range s.items(2 + s.IntN(8)) {
		items = append(items, asynq.NewTask("order:pack", payload(map[string]any{"item": i})))
	}
	pack := f.AddBatch("pack", items, asynq.Queue(standard), asynq.MaxRetry(1)).After(pay)
	f.Add("ship", asynq.NewTask("order:ship", payload(map[string]any{"to": s.customer()})), asynq.Queue(standard)).After(pack)
	f.Add("refund", asynq.NewTask("payment:refund", payload(map[string]any{})), asynq.Queue(critical)).AfterFailure(pack)
	f.Add("invoice", asynq.NewTask("invoice:order", payload(map[string]any{"vat_percent": 19})), asynq.Queue(invoices)).AfterEnd(pack)
	return f
}

// flowLoop starts flows until ctx ends.
func (d *Demo) flowLoop(ctx context.Context, s *shop) {
	t := time.NewTicker(flowInterval)
	defer t.Stop()
	for away := false; ; {
		_, err := flow.Start(ctx, d.enqueue, s.flow())
		if errors.Is(err, flow.ErrExists) { // of an earlier demo on this Redis
			err = nil
		}
		if err != nil && ctx.Err() == nil && !away {
			d.opts.warn("cannot start a flow", "error", err)
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// removeFlows cancels the flows of the demo. Redis removes them after flowRetention.
func (d *Demo) removeFlows(ctx context.Context) error {
	inspector, canceled := flow.Inspect(d.inspector), error(nil)
	const page = 100
	for skip := 0; ; skip += page {
		infos, _, err := inspector.List(ctx, skip, page)
		if err != nil {
			return errors.Join(canceled, fmt.Errorf("list the flows: %w", err))
		}
		for _, info := range infos {
			if !strings.HasPrefix(info.ID, flowPrefix) || !info.Ended.IsZero() {
				continue
			}
			if _, err := inspector.Cancel(ctx, info.ID); err != nil && !errors.Is(err, flow.ErrEnded) && !errors.Is(err, flow.ErrNotFound) {
				canceled = errors.Join(canceled, fmt.Errorf("cancel flow %q: %w", info.ID, err))
			}
		}
		if len(infos) < page {
			return canceled
		}
	}
}
