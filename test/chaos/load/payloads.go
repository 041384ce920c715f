package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynq-go/asynq"
)

// maxResult is the maximum size of results: more than a megabyte.
const maxResult = 5 << 18

// payloads processes tasks of 1 kB to 10 MB and verifies payloads and results.
func payloads(r *run) error {
	sizes := map[int]int{1 << 10: r.n(500, 20), 10 << 10: r.n(500, 20), 100 << 10: r.n(300, 10), 1 << 20: r.n(100, 4), 10_000_000: r.n(50, 2)}
	var order []int
	total := 0
	for size, n := range sizes {
		for range n {
			order = append(order, size)
			total += size
		}
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	r.note("tasks", float64(len(order)), "", fmt.Sprintf("%d MB in all", total/1_000_000))
	r.bear("before")
	start := time.Now()
	for first := 0; first < len(order); first += 20 { // not all in memory at once
		if err := r.produce(first, min(first+20, len(order)), func(i int) *asynq.Task { return large(i, order[i]) }); err != nil {
			return err
		}
	}
	r.note("enqueued", float64(total)/1e6/time.Since(start).Seconds(), "MB/s")
	r.memory("enqueued")
	r.bear("enqueued")

	const concurrency = 50
	counts := newTally(len(order))
	start = time.Now()
	s, err := r.server(asynq.Config{Concurrency: concurrency}, func(_ context.Context, t *asynq.Task) error {
		number, size, err := verify(t.Payload())
		if err == nil && size != order[number] {
			err = fmt.Errorf("task %d has %d bytes, want %d", number, size, order[number])
		}
		if err == nil {
			_, err = t.ResultWriter().Write(t.Payload()[:min(size, maxResult)])
		}
		if err != nil {
			return err
		}
		counts.add(number)
		return nil
	})
	if err != nil {
		return err
	}
	end, err := counts.all(r.ctx)
	if err != nil {
		return err
	}
	r.note("processed", float64(total)/1e6/end.Sub(start).Seconds(), "MB/s", "results written")
	_, heap, _ := r.meter.lap()
	r.note("processed: heap at most", float64(heap)/1e6, "MB")
	bound := 4 * min(concurrency, sizes[10_000_000]) * 10_000_000 // in the connection's buffer, as a reply, a message and a result
	r.check(heap < uint64(bound)+200_000_000, "the heap grew to %d MB, with %d MB of active payloads", heap/1e6, bound/4/1_000_000)
	r.settled("default", len(order))
	r.shutdown(s)
	r.bear("settled")
	r.exactlyOnce(counts)
	for i, size := range order {
		info, err := r.inspector.GetTaskInfo("default", fmt.Sprint("large-", i))
		if err != nil {
			return err
		}
		number, _, err := verify(info.Payload)
		r.check(err == nil && number == i && bytes.Equal(info.Result, info.Payload[:min(size, maxResult)]),
			"task %d: its result of %d bytes is another one, or its payload (%v)", i, len(info.Result), err)
	}
	r.bear("inspected")
	r.sound()
	return nil
}

const sumSize = sha256.Size

// large returns a task with a number, random bytes and a checksum of both.
func large(number, size int) *asynq.Task {
	seed := [32]byte{}
	binary.BigEndian.PutUint64(seed[:], uint64(number))
	payload := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(payload) // cannot fail
	binary.BigEndian.PutUint64(payload[sumSize:], uint64(number))
	sum := sha256.Sum256(payload[sumSize:])
	copy(payload, sum[:])
	return asynq.NewTask("large", payload, asynq.TaskID(fmt.Sprint("large-", number)), asynq.MaxRetry(0), asynq.Retention(time.Hour))
}

// verify returns the number and size of a payload with a valid checksum.
func verify(payload []byte) (number, size int, err error) {
	if len(payload) < sumSize+8 {
		return 0, 0, fmt.Errorf("a payload of %d bytes", len(payload))
	}
	if sum := sha256.Sum256(payload[sumSize:]); !bytes.Equal(sum[:], payload[:sumSize]) {
		return 0, 0, fmt.Errorf("a payload of %d bytes whose checksum is wrong", len(payload))
	}
	return int(binary.BigEndian.Uint64(payload[sumSize:])), len(payload), nil
}
