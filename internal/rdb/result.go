package rdb

import (
	"context"

	"github.com/asynq-go/asynq/internal/script"
)

// ResultWrite stores the result or the progress of a task on behalf of the attempt that holds it,
// and holds the outcome.
type ResultWrite struct {
	Queue  string
	ID     string
	Token  string // of the fetch
	Result []byte // or a wire.Progress

	Code script.Code // CodeOK, CodeGone or CodeLost
	Err  error       // the error of the call
}

// WriteResults stores results in one pipeline. Those of one task are stored in their order.
func (b *Broker) WriteResults(ctx context.Context, writes []*ResultWrite) {
	b.write(ctx, writeResultsScript, writes)
}

// WriteProgress is like WriteResults for the progress of tasks.
func (b *Broker) WriteProgress(ctx context.Context, writes []*ResultWrite) {
	b.write(ctx, writeProgressScript, writes)
}

// write makes calls of a script for writes.
func (b *Broker) write(ctx context.Context, to *script.Script, writes []*ResultWrite) {
	type batch struct {
		queue  *script.Queue
		writes []*ResultWrite
		bytes  int
	}
	open := make(map[string]*batch, 1)
	var batches []*batch
	for _, w := range writes {
		in := open[w.Queue]
		if in == nil || len(in.writes) == script.MaxBatch || in.bytes+len(w.Result) > script.MaxBatchBytes {
			in = &batch{queue: b.Queue(w.Queue)}
			open[w.Queue], batches = in, append(batches, in)
		}
		in.writes = append(in.writes, w)
		in.bytes += len(w.Result)
	}
	calls := make([]*script.Call, len(batches))
	for i, in := range batches {
		c := script.NewCall(to, 3*len(in.writes))
		for _, w := range in.writes {
			c.Key(in.queue.Keys.Task(w.ID))
		}
		for _, w := range in.writes {
			c.Arg(w.Token, w.Result)
		}
		calls[i] = c
	}
	b.Run(ctx, calls...)
	for i, in := range batches {
		codes := calls[i].ReadCodes(len(in.writes))
		err := codes.Err()
		for _, w := range in.writes {
			w.Code, w.Err = codes.Code(), err
		}
	}
}

// WriteResult stores the result of one task. It returns ErrTaskGone or ErrTokenLost if no attempt
// holds the task under the token.
func (b *Broker) WriteResult(ctx context.Context, queue, id, token string, result []byte) error {
	w := ResultWrite{Queue: queue, ID: id, Token: token, Result: result}
	b.WriteResults(ctx, []*ResultWrite{&w})
	if w.Err != nil {
		return w.Err
	}
	return w.Code.Err()
}
