package demo

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"time"

	"github.com/asynq-go/asynq"
)

// kind is a task type that the shop enqueues.
type kind struct {
	weight int // share of all tasks, in thousandths
	queue  string
	typ    string
	fill   func(*shop) ([]byte, []asynq.Option)
}

// kinds is the mix of tasks. The weights add up to 1,000.
var kinds = []kind{
	{120, critical, "order:confirm", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"order_id": s.nextOrder(), "customer": s.customer(), "items": s.items(1 + s.IntN(4))}),
			[]asynq.Option{asynq.MaxRetry(5), asynq.Timeout(10 * time.Second)}
	}},
	{120, critical, "payment:capture", func(s *shop) ([]byte, []asynq.Option) {
		order := s.nextOrder()
		return encode(map[string]any{"order_id": order, "amount_cents": 500 + s.IntN(40_000), "currency": "EUR", "ledger_id": uint64(9_007_199_254_740_993) + uint64(order), "card": "•••• " + fmt.Sprintf("%04d", s.IntN(10_000))}),
			[]asynq.Option{asynq.MaxRetry(3), asynq.Timeout(2 * time.Second), asynq.TaskID(fmt.Sprintf("payment-%d-%s", order, s.hex(3)))}
	}},
	{150, standard, "email:welcome", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"to": s.customer(), "template": "welcome", "campaign": nil}), []asynq.Option{asynq.MaxRetry(4)}
	}},
	{170, standard, "webhook:deliver", func(s *shop) ([]byte, []asynq.Option) {
		host := of(s, partners)
		return encode(map[string]any{"url": "https://" + host + "/v1/events", "event": "order.paid", "order_id": s.nextOrder(), "attempt_token": s.hex(8)}),
			[]asynq.Option{asynq.MaxRetry(4), asynq.Timeout(5 * time.Second), asynq.Header("x-tenant", host)}
	}},
	{120, images, "image:resize", func(s *shop) ([]byte, []asynq.Option) {
		sku := s.item().SKU
		return encode(map[string]any{"source": "s3://shop-images/" + sku + "/original.jpg", "widths": []int{320, 640, 1280}, "format": "webp", "pixels": 1 + s.IntN(12_000_000)}),
			[]asynq.Option{asynq.MaxRetry(2), asynq.Timeout(20 * time.Second), asynq.Retention(2 * time.Minute)}
	}},
	{25, images, "image:thumbnail", func(s *shop) ([]byte, []asynq.Option) {
		return s.picture(), []asynq.Option{asynq.MaxRetry(2), asynq.Timeout(20 * time.Second), asynq.Header("content-type", "image/png")}
	}},
	{160, search, "search:index", func(s *shop) ([]byte, []asynq.Option) {
		i := s.item()
		return encode(i), []asynq.Option{asynq.Group(i.Category)}
	}},
	{50, invoices, "invoice:create", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"order_id": s.nextOrder(), "customer": s.customer(), "lines": s.items(1 + s.IntN(6)), "vat_percent": 19}),
			[]asynq.Option{asynq.MaxRetry(3), asynq.Retention(5 * time.Minute), asynq.Timeout(30 * time.Second)}
	}},
	{30, standard, "cart:reminder", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"customer": s.customer(), "items": s.items(1 + s.IntN(3))}),
			[]asynq.Option{asynq.ProcessIn(time.Duration(20+s.IntN(400)) * time.Second), asynq.MaxRetry(2)}
	}},
	{35, low, "fraud:score", func(s *shop) ([]byte, []asynq.Option) {
		// Unique: at most once per minute and customer.
		return encode(map[string]any{"customer_id": 10_000 + s.IntN(40), "model": "gbm-7"}), []asynq.Option{asynq.Unique(time.Minute), asynq.MaxRetry(1), asynq.Retention(time.Minute)}
	}},
	{12, newsletter, "newsletter:send", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"to": s.customer(), "issue": "2026-11", "topics": []string{of(s, categories), of(s, categories)}}), []asynq.Option{asynq.MaxRetry(1)}
	}},
	{5, legacy, "legacy:sync", func(s *shop) ([]byte, []asynq.Option) {
		return fmt.Appendf(nil, "<sync table=\"orders\" from=\"%d\" rows=\"500\"/>", s.nextOrder()), nil
	}},
	{1, reports, "report:monthly", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"month": fmt.Sprintf("2026-%02d", 1+s.IntN(12)), "format": "pdf", "requested_by": s.customer().Email}),
			[]asynq.Option{asynq.MaxRetry(1), asynq.Timeout(5 * time.Minute), asynq.Retention(time.Hour), asynq.Unique(2 * time.Minute)}
	}},
	{2, low, "catalog:import", func(s *shop) ([]byte, []asynq.Option) {
		return encode(map[string]any{"supplier": of(s, partners), "items": s.items(2_500)}), // some 250 KB
			[]asynq.Option{asynq.MaxRetry(2), asynq.Retention(5 * time.Minute), asynq.Timeout(time.Minute)}
	}},
}

// task returns a task of the kind.
func (k *kind) task(s *shop) *asynq.Task {
	payload, opts := k.fill(s)
	return asynq.NewTask(k.typ, payload, append(opts, asynq.Queue(k.queue), asynq.Header("trace-id", s.hex(8)))...)
}

// next returns the next task of the mix.
func (s *shop) next() *asynq.Task {
	n := s.IntN(1000)
	for i := range kinds {
		if n -= kinds[i].weight; n < 0 {
			return kinds[i].task(s)
		}
	}
	panic("demo: the weights of the kinds do not add up to 1,000")
}

// some returns n tasks of one type.
func (s *shop) some(typ string, n int, more ...asynq.Option) []*asynq.Task {
	var all []*asynq.Task
	for i := range kinds {
		if k := kinds[i]; k.typ == typ {
			for range n {
				payload, opts := k.fill(s)
				all = append(all, asynq.NewTask(k.typ, payload, append(append(opts, asynq.Queue(k.queue)), more...)...))
			}
		}
	}
	return all
}

// picture returns a small PNG image.
func (s *shop) picture() []byte {
	m := image.NewPaletted(image.Rect(0, 0, 24, 24), color.Palette{color.White, color.RGBA{R: uint8(s.IntN(256)), G: uint8(s.IntN(256)), B: uint8(s.IntN(256)), A: 255}})
	for i := range m.Pix {
		m.Pix[i] = uint8(s.IntN(2))
	}
	var b bytes.Buffer
	_ = png.Encode(&b, m) // to memory
	return b.Bytes()
}
