package rdb_test

import (
	"slices"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// recoverBroken recovers what another process left half done: leases of tasks that are not active, and active tasks without a lease.
func (m *machine) recoverBroken(t *rapid.T) {
	q, b, now := m.pickQueue(t), m.anyBroker(t), m.model.now
	lease := q.keys.Lease()
	if len(q.active) > 0 && oneIn(t, 2, "no lease") {
		task := q.tasks[pick(t, "id", q.active...)]
		m.must(t, m.client.ZRem(m.ctx, lease, task.id))
		task.at = moment{unix: now - 100, exact: true}
		r := m.pickRecovery(t, q, task.id, task.token)
		b.Recover(m.ctx, q.keys.Name, []*rdb.Recovery{r})
		code := q.recover(r, now)
		if r.Archive {
			q.trim(len(q.tasks), now)
		}
		if _, kept := q.tasks[r.ID]; b == m.again && kept {
			code = rdb.CodeAlready
		} else if b == m.again {
			code = rdb.CodeGone
		}
		if r.Err != nil || r.Code != code {
			t.Errorf("recovery of %q without a lease: code %d, want %d, error %v", r.ID, r.Code, code, r.Err)
		}
		return
	}
	ids := slices.DeleteFunc(append(q.ids(), "none"), func(id string) bool {
		task := q.tasks[id]
		return task != nil && task.state == wire.StateActive
	})
	r := &rdb.Recovery{ID: pick(t, "id", ids...), Failed: true, Message: []byte("not to be written")}
	m.must(t, m.client.ZAdd(m.ctx, lease, redis.Z{Score: float64(now - 100000), Member: r.ID}))
	listed, _, _, err := m.broker.Expired(m.ctx, q.keys.Name, 0, 1)
	if err != nil || len(listed) != 1 || listed[0].ID != r.ID || listed[0].Message != nil {
		t.Errorf("with a lease of %q, which is not active: %+v, error %v", r.ID, listed, err)
	}
	b.Recover(m.ctx, q.keys.Name, []*rdb.Recovery{r})
	code := rdb.CodeGone
	if b == m.again && q.tasks[r.ID] != nil {
		code = rdb.CodeLost // the lease is gone by then
	}
	if r.Err != nil || r.Code != code {
		t.Errorf("recovery of %q, which is not active: code %d, want %d, error %v", r.ID, r.Code, code, r.Err)
	}
}
