// Package asynqtest is for the unit tests of programs that use asynq. It has no mocks: tasks go
// through a Redis in the test's own process and a real server, with everything that belongs to
// them, but at once, and without sleeping.
//
//	func TestSignUp(t *testing.T) {
//		b := asynqtest.Run(t)
//		app := NewApp(b.Client())
//
//		app.SignUp("ada@example.com")
//		b.AssertEnqueued(t, asynqtest.Task{Type: "email:welcome", Payload: map[string]any{"to": "ada@example.com"}})
//
//		outcomes := b.Drain(t, app.Handler())
//		…
//		b.Advance(24 * time.Hour) // what was scheduled for tomorrow is due now
//		outcomes = b.Drain(t, app.Handler())
//	}
//
// # Time
//
// The clock of a Broker stands still until Advance or SetTime move it. It is the clock of its
// Redis, by which tasks become due, groups complete, and uniqueness locks, retentions and leases
// end; and it is the clock of the clients that are made with RedisConnOpt, from which ProcessIn
// counts. So ProcessIn(time.Hour) is due after Advance(time.Hour), never earlier or later.
//
// Not under its control is whatever calls time.Now:
//
//   - The program's own code, as in ProcessAt(time.Now().Add(time.Hour)). Before the first move
//     that does what one expects: the clock starts at the host's time, and Advance adds what has
//     passed on the host since. After a move, or with SetTime, let the code take its time from
//     Broker.Now.
//   - Clients made with NewClientFromRedisClient: they do not know the clock.
//   - The timeouts and deadlines of handlers' contexts, which are those of the host; and with them
//     TaskInfo.LastFailedAt and CompletedAt.
//   - Schedulers, whose ticks are those of the host.
package asynqtest
