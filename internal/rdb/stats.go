package rdb

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// The TTLs of statistics as script arguments.
var (
	minutesSeconds any = int64(wire.StatsMinutesTTL / time.Second)
	hoursSeconds   any = int64(wire.StatsHoursTTL / time.Second)
)

// The limits of one pipeline of AddStats.
const (
	maxStatsCalls   = 100
	maxStatsEntries = 1000
)

// StatsReply is the result of a call of AddStats.
type StatsReply struct {
	Code script.Code // CodeOK, CodeAlready or CodeGone: there is no such queue
	Now  int64       // by the clock of Redis, unix milliseconds
	Err  error       // of the call; it may have been executed
}

// AddStats adds what a sender has counted to the statistics of queues, in one pipeline. A repeated
// batch counts once.
func (b *Broker) AddStats(ctx context.Context, sender string, batches []*rollup.Batch) []StatsReply {
	calls := make([]*script.Call, len(batches))
	for i, batch := range batches {
		calls[i] = b.statsCall(sender, batch)
	}
	for first := 0; first < len(calls); {
		last, entries := first, 0
		for last < len(calls) && last-first < maxStatsCalls && entries < maxStatsEntries {
			entries += len(batches[last].Entries)
			last++
		}
		b.Run(ctx, calls[first:last]...)
		first = last
	}
	replies := make([]StatsReply, len(batches))
	for i, c := range calls {
		r := c.Read()
		replies[i] = StatsReply{Code: r.Code(), Now: r.Int(), Err: r.Err()}
	}
	return replies
}

func (b *Broker) statsCall(sender string, batch *rollup.Batch) *script.Call {
	q := b.Queue(batch.Queue)
	hour := time.Unix(batch.Hour*3600, 0).UTC()
	var minute any = ""
	if batch.Sizes {
		minute = batch.Minute
	}
	c := script.NewCall(addStatsScript, 13+10+4*len(batch.Entries)).
		Key(q.Keys.StatsMinutes(hour), q.Keys.StatsHours(hour), q.Keys.ErrorMinutes(hour), q.Keys.ErrorHours(hour)).
		Key(q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed, q.Groups, q.AggregationSets, q.Processed).
		Arg(wire.StatsSenderField(sender), batch.Number, hour.Hour(), minutesSeconds, hoursSeconds).
		Arg(wire.MaxStatsMinutes, wire.MaxStatsHours, minute, q.TaskPrefix, q.GroupPrefix)
	texts := make(map[string]bool)
	for _, e := range batch.Entries {
		at := e.Minute % 60
		switch e.Table {
		case rollup.QueueTable:
			c.Arg(at, "queue", "", e.Stats.Encode())
		case rollup.TypeTable:
			c.Arg(at, "type", e.Type, e.Stats.Encode())
		case rollup.ErrorTable:
			id := rollup.KindID(e.Kind)
			if id != "" && !texts[id] {
				texts[id] = true
				c.Arg(at, "text", id, e.Kind)
			}
			c.Arg(at, "error", id+":"+e.Type, e.Count)
		}
	}
	return c
}
