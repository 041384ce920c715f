package rdbcheck

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// checkFlows checks the counters of the parts of flows.
func (c *queueCheck) checkFlows(ctx context.Context, keys []string) error {
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, c.keys.Prefix()+"flows:part:")
		if !ok {
			continue
		}
		part, ok := wire.ParseFlowPart(name)
		if !ok {
			c.report(key, "", "%q is not the name of a part", name)
			continue
		}
		var counters *redis.SliceCmd
		var open, failed *redis.IntCmd
		var both *redis.StringSliceCmd
		_, err := c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			counters = pipe.HMGet(ctx, key, "made", "succeeded", "deleted")
			open, failed = pipe.SCard(ctx, c.keys.FlowOpen(part)), pipe.SCard(ctx, c.keys.FlowFailed(part))
			both = pipe.SInter(ctx, c.keys.FlowOpen(part), c.keys.FlowFailed(part))
			return nil
		})
		if err != nil {
			return err
		}
		var n [3]int64
		for i, v := range counters.Val() {
			text, _ := v.(string)
			n[i], _ = strconv.ParseInt(text, 10, 64) // absent: 0
		}
		if n[0] != n[1]+n[2]+open.Val()+failed.Val() {
			c.report(key, "", "of %d members %d have succeeded, %d were deleted, %d are open, %d have failed", n[0], n[1], n[2], open.Val(), failed.Val())
		}
		for _, id := range both.Val() {
			c.report(key, id, "it is open and has failed")
		}
	}
	return nil
}
