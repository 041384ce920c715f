package site

import (
	"context"
	"fmt"
	"time"
)

// Incident is something that was done to a site. It says what the checker of a run must know.
type Incident struct {
	Name  string   // of the method, with how it was done: "restart", "failover by freeze"
	Nodes []string // to which it was done

	Began, Over time.Time

	// Writes that were answered between these two moments may be gone. Both are zero if none may.
	LostFrom, LostUntil time.Time

	// Cut is how many bytes PowerLoss took off an AOF.
	Cut int64

	// Effect is what came of it, where that is not certain beforehand: see the method.
	Effect string

	// Primary is the node that is the primary of the shard in the end, "" where that is not the question.
	Primary string
	// In a failover, Elected is when all agreed on it, and Writable when it first took writes: with Sentinels that is the earlier one.
	Elected, Writable time.Time
}

// Loses is how long before Began writes must have been answered to be there for certain: zero if none may be lost.
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

// lost widens the time whose writes may be gone.
func (i *Incident) lost(from, until time.Time) {
	if i.LostFrom.IsZero() || from.Before(i.LostFrom) {
		i.LostFrom = from
	}
	if until.After(i.LostUntil) {
		i.LostUntil = until
	}
}

// replicated waits until all replicas of the shard that are up have what the primary has now, and returns the moment before which
// everything that was answered is on them. Where no replica is up that is now: nobody else can take over.
func (sh *Shard) replicated(ctx context.Context, primary *Node) (time.Time, error) {
	var moment time.Time
	err := until(ctx, "the replicas to catch up", func(ctx context.Context) error {
		moment = time.Now()
		return sh.inSync(ctx, primary)
	})
	return moment, err
}
