package apiv1

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

type queueLocation struct {
	Queue   string   `json:"queue"`
	KeySlot int64    `json:"keyslot"`
	Nodes   []string `json:"nodes"`
}

// redisInfo returns the text of INFO and of CLUSTER. Texts that are not available, as with an
// embedded Redis or without permission, are empty.
func (h *handler) redisInfo(x *exchange) {
	if !h.mayView(x) {
		return
	}
	ctx := x.r.Context()
	if err := h.Redis.Ping(ctx).Err(); err != nil {
		h.fail(x, err)
		return
	}
	info := struct {
		Address         string            `json:"address"`
		Info            map[string]string `json:"info"`
		RawInfo         string            `json:"raw_info"`
		Cluster         bool              `json:"cluster"`
		RawClusterNodes string            `json:"raw_cluster_nodes"`
		QueueLocations  []queueLocation   `json:"queue_locations"` // null without a cluster
	}{Address: addressOf(h.Redis), Cluster: h.Cluster}
	info.RawInfo = h.call(ctx, "INFO", h.Redis.Info)
	if h.Cluster {
		info.RawInfo = h.call(ctx, "CLUSTER INFO", func(ctx context.Context, _ ...string) *redis.StringCmd { return h.Redis.ClusterInfo(ctx) })
		info.RawClusterNodes = h.call(ctx, "CLUSTER NODES", func(ctx context.Context, _ ...string) *redis.StringCmd { return h.Redis.ClusterNodes(ctx) })
		info.QueueLocations = h.locations(x.inspector)
	}
	info.Info = fieldsOf(info.RawInfo)
	h.answer(x, info)
}

// call returns the response to a command, or "" after an error.
func (h *handler) call(ctx context.Context, name string, command func(context.Context, ...string) *redis.StringCmd) string {
	text, err := command(ctx).Result()
	if err != nil {
		h.Logger.WarnContext(ctx, "Redis command failed", "command", name, "err", err)
		return ""
	}
	return text
}

// locations returns the nodes of each queue in a cluster. Queues with unknown locations have no
// nodes.
func (h *handler) locations(i *asynq.Inspector) []queueLocation {
	names, err := i.Queues()
	if err != nil {
		return []queueLocation{}
	}
	all := make([]queueLocation, len(names))
	for n, name := range names {
		all[n] = queueLocation{Queue: name, Nodes: []string{}}
		if slot, err := i.ClusterKeySlot(name); err == nil {
			all[n].KeySlot = slot
		}
		nodes, err := i.ClusterNodes(name)
		if err != nil {
			continue
		}
		for _, node := range nodes {
			all[n].Nodes = append(all[n].Nodes, node.Addr)
		}
	}
	return all
}

// addressOf returns the address that a client connects to.
func addressOf(c redis.UniversalClient) string {
	switch c := c.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	default:
		return ""
	}
}

// fieldsOf parses the name:value lines of INFO.
func fieldsOf(raw string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(raw) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields
}
