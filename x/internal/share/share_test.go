package share_test

import (
	"slices"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/internal/share"
)

func TestShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		servers, own []float64 // weights; 0: none of its own
		want         []float64
	}{
		{nil, []float64{0, 0}, []float64{0.5, 0.5}},
		{nil, []float64{1, 3}, []float64{0.25, 0.75}},
		{nil, []float64{0, 3}, []float64{0, 0}},
		{[]float64{1}, []float64{0, 3}, []float64{0.25, 0.75}},
		{[]float64{6, 6}, []float64{0, 2}, []float64{0.75, 0.25}},
		{[]float64{6, 1}, []float64{0, 2}, []float64{0, 0}},
		{[]float64{6, 1}, []float64{0, 0}, []float64{0.5, 0.5}},
	} {
		servers := []*asynq.ServerInfo{{}, {Partitions: map[string]asynq.PartitionConfig{"other": {Weight: 9}}}}
		for _, w := range tt.servers {
			servers = append(servers, &asynq.ServerInfo{Partitions: map[string]asynq.PartitionConfig{"q": {Weight: w}}})
		}
		shares, got := share.Of("q", servers), []float64(nil)
		for _, w := range tt.own {
			shares.Add(&asynq.PartitionInfo{Settings: asynq.PartitionSettings{Weight: w}})
		}
		for _, w := range tt.own {
			got = append(got, shares.Part(&asynq.PartitionInfo{Settings: asynq.PartitionSettings{Weight: w}}))
		}
		if !slices.Equal(got, tt.want) || shares.Known() != (tt.want[0] > 0) {
			t.Errorf("servers with %v, partitions with %v: %v, known %v; want %v", tt.servers, tt.own, got, shares.Known(), tt.want)
		}
	}
}
