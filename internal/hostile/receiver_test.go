package hostile_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// hostileTokens are tokens without a lease. Some of them would break a script that parses them.
var hostileTokens = []string{"", " ", "*1", "a*1 b*1", "ABC", "a-1-zzzzzzzzzzzzzzzzzz", strings.Repeat("t", 1000), notUTF8, "ünï", "-", "--"}

// withReceiver calls f with a running Receiver that maintains a separate queue.
func (h *hostile) withReceiver(f func(r *asynq.Receiver)) {
	r := asynq.NewReceiver(h.Opt(), asynq.ReceiverConfig{Queues: map[string]int{"receiver": 1}, Logger: discard{}})
	h.noErr(r.Start())
	f(r)
	h.noErr(r.ShutdownContext(context.Background()))
}

// discard is a Logger that writes nothing.
type discard struct{}

func (discard) Debug(...any) {}
func (discard) Info(...any)  {}
func (discard) Warn(...any)  {}
func (discard) Error(...any) {}
func (discard) Fatal(...any) {}

// missingLeases returns references to leases that do not exist.
func missingLeases() (refs []asynq.LeaseRef) {
	for _, token := range hostileTokens {
		refs = append(refs, asynq.LeaseRef{Queue: "default", ID: "pending", Token: token}, asynq.LeaseRef{Queue: "default", ID: "later", Token: token})
	}
	for _, name := range []string{"", "}", notUTF8, "clo}sing"} {
		refs = append(refs, asynq.LeaseRef{Queue: name, ID: "pending", Token: "a-1"})
	}
	return append(refs, asynq.LeaseRef{Queue: "default", Token: "a-1"}, asynq.LeaseRef{Queue: "default", ID: "pending", Token: "a-1", Worker: hugeName})
}

var hostileReceiver = map[string]func(h *hostile){
	"NewReceiver": func(h *hostile) {
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewReceiver(nil, asynq.ReceiverConfig{}) })
		h.wantPanic("namespace", func() { asynq.NewReceiver(h.Opt(), asynq.ReceiverConfig{Namespace: "{"}) })
		for _, cfg := range []asynq.ReceiverConfig{
			{Queues: map[string]int{"extreme": math.MinInt, "": 1, "}": 1, notUTF8: 1}, QueueConcurrency: map[string]int{"": math.MinInt},
				LeaseDuration: mostNegative, TaskCheckInterval: mostNegative, DelayedTaskCheckInterval: mostNegative, JanitorInterval: mostNegative,
				JanitorBatchSize: math.MinInt, LogLevel: math.MinInt32, ShutdownTimeout: mostNegative, AttemptLog: math.MinInt},
			{Queues: map[string]int{"extreme": math.MaxInt}, QueueConcurrency: map[string]int{"extreme": math.MaxInt},
				LeaseDuration: longest, TaskCheckInterval: longest, DelayedTaskCheckInterval: longest, JanitorInterval: longest,
				JanitorBatchSize: math.MaxInt, LogLevel: math.MaxInt32, ShutdownTimeout: longest, AttemptLog: math.MaxInt},
		} {
			cfg.Logger = discard{}
			r := asynq.NewReceiver(h.Opt(), cfg)
			r.Shutdown()
		}
	},
	"NewReceiverFromRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewReceiverFromRedisClient(nil, asynq.ReceiverConfig{}) })
	},
	"Receiver.Start": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) { h.wantErr(r.Start(), nil, "already running") })
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		r.Shutdown()
		h.wantErr(r.Start(), asynq.ErrReceiverClosed)
	},
	"Receiver.Ping": func(h *hostile) {
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		h.noErr(r.Ping())
		r.Shutdown()
		h.wantErr(r.Ping(), asynq.ErrReceiverClosed)
	},
	"Receiver.Shutdown": func(h *hostile) {
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{ShutdownTimeout: mostNegative})
		r.Shutdown()
		r.Shutdown()
	},
	"Receiver.ShutdownContext": func(h *hostile) {
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		h.wantErr(r.ShutdownContext(noContext), nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.noErr(r.ShutdownContext(ctx))
	},
	"Receiver.SetQueues": func(h *hostile) {
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		h.noErr(r.SetQueues(nil, nil))
		h.noErr(r.SetQueues(map[string]int{"": 1, "}": 1, notUTF8: 1, "x": math.MinInt}, map[string]asynq.QueueConfig{"": {Concurrency: math.MinInt}, "x": {Concurrency: math.MaxInt}}))
		h.wantErr(r.SetQueues(nil, map[string]asynq.QueueConfig{"x": {Concurrency: 2, Ordered: true}}), nil, "must be 0 or 1")
		r.Shutdown()
		h.wantErr(r.SetQueues(nil, nil), asynq.ErrReceiverClosed)
	},
	"Receiver.Receive": func(h *hostile) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.withReceiver(func(r *asynq.Receiver) {
			receive := func(ctx context.Context, n int, queues ...string) error {
				leases, err := r.Receive(ctx, n, queues...)
				h.check(len(leases) == 0, "%d leases", len(leases))
				return err
			}
			h.wantErr(receive(noContext, 1), nil, "ctx must not be nil")
			h.wantErr(receive(context.Background(), 0), nil, "at least 1")
			h.wantErr(receive(context.Background(), math.MinInt), nil, "at least 1")
			for _, name := range blankNames {
				h.wantErr(receive(context.Background(), 1, "default", name), nil, "must not be empty")
			}
			h.wantErr(receive(context.Background(), 1, "}"), nil, "closing brace")
			h.wantErr(receive(context.Background(), 1, notUTF8), nil, "not valid UTF-8")
			h.wantErr(receive(ctx, math.MaxInt, "default"), context.Canceled)
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			h.wantErr(receive(short, math.MaxInt, "receiver", "receiver", "clo}sing", "*", longName), context.DeadlineExceeded)
		})
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		_, err := r.Receive(context.Background(), 1)
		h.wantErr(err, nil, "call Start first")
		r.Shutdown()
		_, err = r.Receive(context.Background(), 1)
		h.wantErr(err, asynq.ErrReceiverClosed)
	},
	"Receiver.ReceiveAs": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) {
			for _, name := range []string{"a\nb", "\x1b[2J", notUTF8, hugeName} {
				leases, err := r.ReceiveAs(context.Background(), name, 1, "receiver")
				h.check(len(leases) == 0, "%d leases", len(leases))
				h.wantErr(err, nil, "worker")
			}
		})
	},
	"Receiver.OpenLease": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) {
			_, err := r.OpenLease(noContext, asynq.LeaseRef{})
			h.wantErr(err, nil, "ctx must not be nil")
			for _, ref := range append(missingLeases(), asynq.LeaseRef{}) {
				l, err := r.OpenLease(context.Background(), ref)
				h.wantErr(err, asynq.ErrLeaseExpired)
				h.check(l == nil, "opened a lease for %.100v", ref)
			}
		})
		r := asynq.NewReceiverFromRedisClient(h.RDB, asynq.ReceiverConfig{})
		defer r.Shutdown()
		_, err := r.OpenLease(context.Background(), asynq.LeaseRef{})
		h.wantErr(err, nil, "call Start first")
	},
	"Receiver.OpenLeases": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) {
			leases, errs := r.OpenLeases(context.Background())
			h.check(len(leases) == 0 && len(errs) == 0, "%d leases and %d errors without references", len(leases), len(errs))
			leases, errs = r.OpenLeases(context.Background(), missingLeases()...)
			for i, err := range errs {
				h.wantErr(err, asynq.ErrLeaseExpired)
				h.check(leases[i] == nil, "opened a lease that does not exist")
			}
		})
	},
	"Receiver.Settle": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) {
			h.check(len(r.Settle(context.Background())) == 0, "errors without settlements")
			h.wantErr(r.Settle(noContext, asynq.Settlement{})[0], nil, "ctx must not be nil")
			errs := r.Settle(context.Background(), asynq.Settlement{}, asynq.Settlement{Lease: new(asynq.Lease)},
				asynq.Settlement{Ref: asynq.LeaseRef{Queue: "default", ID: "pending", Token: "a"}, Err: errors.New("boom"), Release: true})
			h.wantErr(errs[0], nil, "must not be nil")
			h.wantErr(errs[1], nil, "belongs to another Receiver")
			h.wantErr(errs[2], asynq.ErrLeaseExpired)
			for _, ref := range missingLeases() {
				if ref.Queue == "default" && ref.ID == "pending" { // the success of a deleted task is no error
					h.wantErr(r.Settle(context.Background(), asynq.Settlement{Ref: ref, Result: []byte("x")})[0], asynq.ErrLeaseExpired)
				}
				h.wantErr(r.Settle(context.Background(), asynq.Settlement{Ref: ref, Err: errors.New("boom")})[0], asynq.ErrLeaseExpired)
				h.wantErr(r.Settle(context.Background(), asynq.Settlement{Ref: ref, Release: true})[0], asynq.ErrLeaseExpired)
			}
		})
	},
	"Receiver.Extend": func(h *hostile) {
		h.withReceiver(func(r *asynq.Receiver) {
			h.wantErr(r.Extend(noContext, nil)[0], nil, "ctx must not be nil")
			h.wantErr(r.Extend(context.Background(), nil)[0], nil, "must not be nil")
		})
	},
	"Lease.Queue": func(h *hostile) { h.check(new(asynq.Lease).Queue() == "", "an empty lease has a queue") },
	"Lease.ID":    func(h *hostile) { h.check(new(asynq.Lease).ID() == "", "an empty lease has an ID") },
	"Lease.Token": func(h *hostile) { h.check(new(asynq.Lease).Token() == "", "an empty lease has a token") },
	"Lease.Ref": func(h *hostile) {
		h.check(new(asynq.Lease).Ref() == asynq.LeaseRef{}, "an empty lease has a reference")
	},
	"Lease.Worker":    func(h *hostile) { h.check(new(asynq.Lease).Worker() == "", "an empty lease has a worker") },
	"Lease.Task":      func(h *hostile) { h.check(new(asynq.Lease).Task() == nil, "an empty lease has a task") },
	"Lease.Info":      func(h *hostile) { h.check(new(asynq.Lease).Info() == nil, "an empty lease has a TaskInfo") },
	"Lease.Deadline":  func(h *hostile) { h.check(new(asynq.Lease).Deadline().IsZero(), "an empty lease has a deadline") },
	"Lease.ExpiresAt": func(h *hostile) { h.check(new(asynq.Lease).ExpiresAt().IsZero(), "an empty lease has an expiry") },
	"Lease.Context":   func(h *hostile) { h.noErr(new(asynq.Lease).Context().Err()) },
	"Lease.Extend": func(h *hostile) {
		_, err := new(asynq.Lease).Extend(context.Background())
		h.wantErr(err, nil, "not returned by a Receiver")
	},
	"Lease.SetProgress": func(h *hostile) {
		h.wantErr(new(asynq.Lease).SetProgress(context.Background(), 0.5, ""), nil, "not returned by a Receiver")
	},
	"Lease.Complete": func(h *hostile) {
		h.wantErr(new(asynq.Lease).Complete(context.Background(), []byte("x")), nil, "not returned by a Receiver")
	},
	"Lease.Fail": func(h *hostile) {
		h.wantErr(new(asynq.Lease).Fail(context.Background(), nil), nil, "call Complete for success")
		h.wantErr(new(asynq.Lease).Fail(context.Background(), errors.New("boom")), nil, "not returned by a Receiver")
	},
	"Lease.Release": func(h *hostile) {
		h.wantErr(new(asynq.Lease).Release(context.Background()), nil, "not returned by a Receiver")
	},
}
