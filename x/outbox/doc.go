// Package outbox enqueues tasks within SQL transactions.
//
// Enqueue writes a row into a table, in the transaction of the caller: if it is rolled back, there
// is no task. Relays, of which any number may run, move committed rows to Redis. Each row becomes
// one task, even if relays, the database or Redis crash in between.
//
//	box := outbox.New(outbox.Postgres)
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	err = box.Enqueue(ctx, tx, asynq.NewTask("email:welcome", payload), asynq.Queue("mail"))
//	…
//	err = tx.Commit()
//	relay.Notify() // optional: do not wait for the next poll
//
//	relay := outbox.NewRelay(box, db, client) // in the same program, or in others
//	err := relay.Start()
//
// In a handler, Once makes the effects of a task in SQL happen once, although attempts may repeat.
//
// The package uses database/sql with any driver for Postgres 10 or newer, MySQL 8, MariaDB 10.6 or
// newer, and SQLite 3.35 or newer. Schema has the tables. docs/OUTBOX.md describes operations and
// failures.
package outbox
