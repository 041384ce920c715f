// Package step keeps the values of the steps of a task, so that a task that is retried continues
// where it was, and lets a task sleep or wait for a signal without a worker.
//
//	func (o *Orders) Process(ctx context.Context, task *asynq.Task) error {
//		charge, err := step.Run(ctx, "charge", o.charge)
//		if err != nil {
//			return err
//		}
//		if err := step.Sleep(ctx, "cool-off", 24*time.Hour); err != nil {
//			return err
//		}
//		approval, err := step.WaitSignal[Approval](ctx, "approved", 72*time.Hour)
//		if err != nil {
//			return err
//		}
//		return o.ship(ctx, charge, approval)
//	}
//
// A handler always runs from its beginning. A step that has succeeded in an earlier attempt returns
// its recorded value without running again. Steps are found by their names, nothing is replayed:
// the code between steps may do anything, and steps may be added, removed and reordered between
// deployments.
//
// A step runs at least once: if the process crashes after the effect of a step and before its value
// is recorded, the next attempt runs the step again. Make effects idempotent, for example with a
// key from the task ID and the name of the step.
//
// # The context
//
// ctx must be that of a handler, or derived from it; that of an asynq.Lease works, too. Its holder
// passes the error of Sleep or WaitSignal to Lease.Fail. Run may be called concurrently.
//
// # Errors
//
// An error of a step ends the handler: return it, as is or wrapped with %w. Sleep and WaitSignal
// return an error, for which asynq.IsSnooze reports true, to give the slot back. The attempt then
// does not count, and ErrorHandler is not called. After such an error, all steps of the attempt
// return it.
//
// ErrName, ErrDuplicate, ErrKind, ErrValue, ErrTooLarge and ErrTooMany are bugs of the handler that
// a retry does not fix. They wrap asynq.SkipRetry: a handler that returns them archives the task.
// Run it again (Inspector.RunTask) once a fixed version is deployed, and it continues where it was.
//
// asynq.ErrLeaseExpired means that another server may have taken over the task. Nothing was
// recorded, and the outcome of the attempt is ignored.
//
// # Limits
//
// A task has at most 500 steps and 100 signals. A value has at most 1 MB as JSON, and those of all
// steps of a task have at most 16 MB. A name has at most 200 bytes of UTF-8. Steps are stored in
// the hash of their task, and are deleted with it.
package step
