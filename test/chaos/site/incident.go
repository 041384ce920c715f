package site

import (
	"context"
	"fmt"
	"time"
)

// Incident is a fault of a site, with the information for the checker.
type Incident struct {
	Name  string   // name of the fault: "restart", "failover by freeze"
	Nodes []string // affected nodes

	Began, Over time.Time

	// Writes acknowledged between these times may be lost. Both are zero if no write may be lost.
	LostFrom, LostUntil time.Time

	// Cut is the number of bytes that PowerLoss removed from an AOF.
	Cut int64

	// Effect is the effect of the fault if it varies; see the method.
	Effect string

	// Primary is the primary of the shard at the end; "" if not relevant.
	Primary string
	// In a failover, Elected is when all nodes agreed on the new primary, and Writable when it
	// first accepted writes, which is earlier with Sentinels.
	Elected, Writable time.Time
}

// Loses returns how long before Began writes must be acknowledged to be safe; zero if no write may
// be lost.
func (i *Incident) Loses() time.Duration {
	if i.LostFrom.IsZero() {
		return 0
	}
	return max(i.Began.Sub(i.LostFrom), 1)
}

func (i *Incident) String() string {
	text := fmt.Sprintf("%s of %v, %v", i.Name, i.Nodes, i.Over.Sub(i.Began).Round(time.Millisecond))
	if i.Effect != "" {
		text += ", " + i.Effect
	}
	if !i.LostFrom.IsZero() {
		text += fmt.Sprintf(", writes of %v may be lost", i.LostUntil.Sub(i.LostFrom).Round(time.Millisecond))
	}
	return text
}

func begin(name string, nodes ...*Node) *Incident {
	i := &Incident{Name: name, Began: time.Now()}
	i.name(nodes)
	return i
}

func (i *Incident) name(nodes []*Node) {
	for _, n := range nodes {
		i.Nodes = append(i.Nodes, n.name)
	}
}

// lost extends the period whose writes may be lost.
func (i *Incident) lost(from, until time.Time) {
	if i.LostFrom.IsZero() || from.Before(i.LostFrom) {
		i.LostFrom = from
	}
	if until.After(i.LostUntil) {
		i.LostUntil = until
	}
}

// replicated waits until all running replicas of the shard have the current data of the primary,
// and returns the time before which all acknowledged writes are replicated: now, if no replica is
// running.
func (sh *Shard) replicated(ctx context.Context, primary *Node) (time.Time, error) {
	var moment time.Time
	err := until(ctx, "the replicas to catch up", func(ctx context.Context) error {
		moment = time.Now()
		return sh.inSync(ctx, primary)
	})
	return moment, err
}
