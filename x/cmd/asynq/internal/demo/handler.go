package demo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// outcome is the random source that determines the outcome of an attempt. The same task has the
// same outcome in each run with the same seed.
type outcome struct{ *rand.Rand }

func newOutcome(ctx context.Context, seed uint64, t *asynq.Task) outcome {
	retried, _ := asynq.GetRetryCount(ctx)
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%d\n", t.Type(), retried)
	_, _ = h.Write(t.Payload())
	return outcome{rand.New(rand.NewPCG(seed, h.Sum64()))} //nolint:gosec // not used for security
}

// oneIn returns true with probability 1/n.
func (f outcome) oneIn(n int) bool { return f.IntN(n) == 0 }

// between returns a random duration from a to b.
func (f outcome) between(a, b time.Duration) time.Duration {
	return a + time.Duration(f.Int64N(int64(b-a)))
}

// simulate waits for the duration of the work.
func simulate(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newHandler returns the handler of all task types.
func newHandler(seed uint64) asynq.Handler {
	mux := asynq.NewServeMux()
	handle := func(typ string, h func(context.Context, outcome, *asynq.Task) error) {
		mux.HandleFunc(typ, func(ctx context.Context, t *asynq.Task) error { return h(ctx, newOutcome(ctx, seed, t), t) })
	}
	handle("order:confirm", confirmOrder)
	handle("payment:capture", capturePayment)
	handle("email:welcome", sendEmail)
	handle("newsletter:", sendEmail)
	handle("webhook:deliver", deliverWebhook)
	handle("image:", resizeImage)
	handle("search:bulk", indexProducts)
	handle("search:index", indexProducts)
	handle("invoice:create", createInvoice)
	handle("cart:reminder", remindOfCart)
	handle("report:", writeReport)
	handle("catalog:", importCatalog)
	handle("order:pack", packItem)
	handle("invoice:order", createInvoice)
	for _, typ := range []string{"payment:reserve", "payment:refund", "order:ship", "fraud:score", "stock:check", "session:cleanup"} {
		handle(typ, do)
	}
	return mux
}

// result stores v as the result of the task.
func result(t *asynq.Task, v any) error {
	_, err := t.ResultWriter().Write(encode(v))
	return err
}

// packItem packs an item of a flow.
func packItem(ctx context.Context, f outcome, _ *asynq.Task) error {
	if f.oneIn(25) {
		return fmt.Errorf("warehouse: out of stock: %w", asynq.SkipRetry)
	}
	return simulate(ctx, f.between(300*time.Millisecond, 4*time.Second))
}

// do simulates work without a result.
func do(ctx context.Context, f outcome, _ *asynq.Task) error {
	return simulate(ctx, f.between(20*time.Millisecond, 250*time.Millisecond))
}

func confirmOrder(ctx context.Context, f outcome, _ *asynq.Task) error {
	if err := simulate(ctx, f.between(20*time.Millisecond, 200*time.Millisecond)); err != nil {
		return err
	}
	if f.oneIn(40) {
		return fmt.Errorf("confirm order: %w", errors.New(`pq: could not serialize access due to concurrent update (SQLSTATE 40001)`))
	}
	return nil
}

func capturePayment(ctx context.Context, f outcome, t *asynq.Task) error {
	switch {
	case f.oneIn(35): // beyond the Timeout of the task
		return fmt.Errorf("payment gateway: POST /v2/captures: %w", simulate(ctx, time.Minute))
	case f.oneIn(30):
		return fmt.Errorf("payment gateway: card_declined: insufficient_funds: %w", asynq.SkipRetry)
	case f.oneIn(25):
		return errors.New("payment gateway: POST /v2/captures: 502 Bad Gateway")
	}
	if err := simulate(ctx, f.between(80*time.Millisecond, 600*time.Millisecond)); err != nil {
		return err
	}
	return result(t, map[string]any{"captured": true, "reference": fmt.Sprintf("ch_%016x", f.Uint64())})
}

func sendEmail(ctx context.Context, f outcome, _ *asynq.Task) error {
	if err := simulate(ctx, f.between(40*time.Millisecond, 300*time.Millisecond)); err != nil {
		return err
	}
	switch {
	case f.oneIn(120):
		return fmt.Errorf("smtp: 550 5.1.1 mailbox unavailable: %w", asynq.SkipRetry)
	case f.oneIn(30):
		return fmt.Errorf("smtp: dial tcp 192.0.2.%d:587: connect: connection refused", 10+f.IntN(4))
	case f.oneIn(28):
		return fmt.Errorf("smtp: 421 4.7.0 mx%d.example.com: try again later", 1+f.IntN(3))
	}
	return nil
}

func deliverWebhook(ctx context.Context, f outcome, t *asynq.Task) error {
	host := t.Headers()["x-tenant"]
	if err := simulate(ctx, f.between(50*time.Millisecond, 400*time.Millisecond)); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(host, "in.warehouse") && f.oneIn(3): // a partner with a bad day
		return fmt.Errorf("webhook: POST https://%s/v1/events: 503 Service Unavailable: upstream connect error", host)
	case f.oneIn(60):
		return fmt.Errorf("webhook: POST https://%s/v1/events: 410 Gone: %w", host, asynq.SkipRetry)
	case f.oneIn(40):
		return fmt.Errorf("webhook: POST https://%s/v1/events: 429 Too Many Requests: %w", host, asynq.RetryAfter(20*time.Second))
	}
	return nil
}

func resizeImage(ctx context.Context, f outcome, t *asynq.Task) error {
	if err := simulate(ctx, f.between(200*time.Millisecond, 900*time.Millisecond)); err != nil {
		return err
	}
	switch {
	case f.oneIn(45):
		decode(t.Payload(), len(t.Payload())+f.IntN(8)) // panics, as decoders do
	case f.oneIn(50):
		return errors.New("image: unsupported format: the file begins with \"<!DOCTYPE html>\"")
	}
	return result(t, map[string]any{"files": 3, "bytes": 20_000 + f.IntN(400_000)})
}

// decode reads the marker at an index, which may be out of range.
func decode(data []byte, at int) byte { return data[at] }

func indexProducts(ctx context.Context, f outcome, t *asynq.Task) error {
	if err := simulate(ctx, f.between(200*time.Millisecond, 800*time.Millisecond)); err != nil {
		return err
	}
	if f.oneIn(12) {
		return errors.New("search: bulk request: 413 es_rejected_execution_exception: queue capacity 200")
	}
	return result(t, map[string]any{"indexed": strings.Count(string(t.Payload()), `"sku"`)})
}

func createInvoice(ctx context.Context, f outcome, t *asynq.Task) error {
	if err := simulate(ctx, f.between(100*time.Millisecond, 900*time.Millisecond)); err != nil {
		return err
	}
	if f.oneIn(30) {
		return fmt.Errorf("invoice: render: %w", errors.New("font \"Inter\" not found"))
	}
	return result(t, map[string]any{"number": fmt.Sprintf("INV-2026-%06d", f.IntN(1_000_000)), "pdf": "s3://shop-invoices/" + fmt.Sprintf("%08x.pdf", f.Uint32()), "pages": 1 + f.IntN(3)})
}

func remindOfCart(ctx context.Context, f outcome, t *asynq.Task) error {
	if f.oneIn(4) {
		return fmt.Errorf("the order was placed in the meantime: %w", asynq.RevokeTask)
	}
	return sendEmail(ctx, f, t)
}

// writeReport takes about half a minute, and reports its progress in the result.
func writeReport(ctx context.Context, f outcome, t *asynq.Task) error {
	phases := []string{"collecting orders", "adding up", "drawing charts", "writing pages"}
	const steps = 20
	for i := range steps {
		if err := result(t, map[string]any{"step": i, "of": steps, "percent": 100 * i / steps, "phase": phases[i*len(phases)/steps]}); err != nil {
			return err
		}
		if err := simulate(ctx, f.between(time.Second, 2500*time.Millisecond)); err != nil {
			return err
		}
		if i == steps-3 && f.oneIn(5) {
			return errors.New("report: warehouse: query 7 of 9: out of memory: needs 3.2 GB of 2 GB")
		}
	}
	return result(t, map[string]any{"step": steps, "of": steps, "percent": 100, "file": "s3://shop-reports/" + fmt.Sprintf("%08x", f.Uint32()) + ".pdf"})
}

func importCatalog(ctx context.Context, f outcome, t *asynq.Task) error {
	if err := simulate(ctx, f.between(500*time.Millisecond, 3*time.Second)); err != nil {
		return err
	}
	if f.oneIn(6) {
		setPrice(nil, "SKU-00001", len(t.Payload())) // panics, since the map is nil
	}
	return result(t, map[string]any{"read": len(t.Payload())})
}

func setPrice(prices map[string]int, sku string, cents int) { prices[sku] = cents }
