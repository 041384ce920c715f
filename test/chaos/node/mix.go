package node

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// Settings of tasks.
const (
	tries     = 25 // enough for all faults
	fewTries  = 2
	keep      = 4 * time.Hour // longer than a run
	uniqueFor = time.Minute
	hangFor   = time.Second
	taskLimit = 5 * time.Minute
	groups    = 20
	salts     = 40
)

// kind is a kind of task.
type kind struct {
	weight int // per thousand
	poison bool
	make   func(r *rand.Rand, t *task, o *instructions)
}

var kinds = []kind{
	{weight: 90, make: func(_ *rand.Rand, _ *task, o *instructions) { o.Plan = []string{history.Fail, history.Succeed} }},
	{weight: 20, make: func(_ *rand.Rand, _ *task, o *instructions) {
		o.Plan = []string{history.Fail, history.Fail, history.Fail, history.Succeed}
	}},
	{weight: 4, make: func(_ *rand.Rand, t *task, o *instructions) { o.Plan, t.maxRetry = []string{history.Fail}, fewTries }},
	{weight: 40, make: func(r *rand.Rand, _ *task, o *instructions) { o.WorkMS = 100 + r.IntN(600) }},
	{weight: 3, make: func(r *rand.Rand, _ *task, o *instructions) { o.WorkMS = 3000 + r.IntN(4000) }},
	{weight: 50, make: func(r *rand.Rand, t *task, _ *instructions) {
		t.delay = time.Duration(500+r.IntN(3000)) * time.Millisecond
	}},
	{weight: 50, make: func(r *rand.Rand, t *task, o *instructions) {
		t.unique, o.Salt, o.WorkMS = uniqueFor, fmt.Sprint("u", r.IntN(salts)), 50
	}},
	{weight: 50, make: func(r *rand.Rand, t *task, o *instructions) {
		t.group, o.ID = fmt.Sprint("g", r.IntN(groups)), t.id
	}},
	{weight: 20, poison: true, make: func(_ *rand.Rand, _ *task, o *instructions) { o.Plan = []string{history.Panic, history.Succeed} }},
	{weight: 10, poison: true, make: func(_ *rand.Rand, _ *task, o *instructions) { o.Plan = []string{history.Goexit, history.Succeed} }},
	{weight: 3, poison: true, make: func(_ *rand.Rand, t *task, o *instructions) {
		o.Plan, t.timeout = []string{history.Hang, history.Succeed}, hangFor
	}},
	{weight: 2, poison: true, make: func(_ *rand.Rand, _ *task, o *instructions) { o.Plan = []string{history.Huge} }},
}

// Tasks that kill their process are rare, so that workers also do other work.
const crashEvery = 20_000

// pick returns the task of a number: always the same for the same seed, except its ID.
func (p *Producer) pick(n int, process string) (*task, *instructions) {
	r := rand.New(rand.NewPCG(p.Seed, uint64(n)))
	t, o := p.pickKind(r, n, process)
	t.assign(r)
	return t, o
}

// pickKind returns a task of a random kind.
func (p *Producer) pickKind(r *rand.Rand, n int, process string) (*task, *instructions) {
	t := &task{
		id: fmt.Sprintf("%s-%d", process, n), queue: p.Queues[r.IntN(len(p.Queues))], maxRetry: tries, timeout: taskLimit,
	}
	o := &instructions{Plan: []string{history.Succeed}, WorkMS: r.IntN(5)}
	if r.IntN(2) == 0 {
		t.retention = keep
	}
	if p.Poison && n%crashEvery == crashEvery/2 {
		o.Plan = []string{history.Crash, history.Succeed}
		return t, o
	}
	share := r.IntN(1000)
	for _, k := range kinds {
		if share < k.weight {
			if p.Poison || !k.poison {
				k.make(r, t, o)
			}
			break
		}
		share -= k.weight
	}
	return t, o
}
