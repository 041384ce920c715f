// Command asynq looks at queues and tasks, and changes them.
//
// # How a command is made
//
// All commands are in internal/cli, one file a noun (queue.go, server.go): a function newNoun(a *app) *cobra.Command makes the noun with
// its subcommands, and a line in commands (root.go) adds it. A command that lists something looks like queue ls:
//
//   - addListing(cmd) gives it -o, --no-headers, --filter and --watch
//   - its row is a struct whose json tags (snake_case) are the names for -o json, yaml, template and for --filter
//   - its columns are a []out.Column[row] in a fixed order, those with Wide for -o wide only
//   - RunE ends with list(a, cmd, columns, func(ctx) iter.Seq2[row, error]): rows are written as they come, and the function is called
//     once for each turn of --watch. With own filtering, take
//     a.filter(cmd) (the text) and listAll, which leaves the filter alone.
//
// A command that shows one thing ends with a.show(cmd, v, table). One that changes one thing says so with a.say on standard error.
// One that deletes or changes in bulk has addBulk(cmd) for --yes and --dry-run, and asks with a.confirm(cmd, "delete 12 tasks …"), which
// returns false for a dry run.
//
// The connection comes from a.inspector(cmd), a.client(cmd) and a.redis(cmd): made at the first call, closed at the end of the command. Never use
// context.Background: cmd.Context() ends with a signal. Data go to a.Out, all else to a.Err (a.say).
//
// An error that RunE returns is printed once, to standard error, and decides the exit code: 2 for usage("…"), 3 for anything that is
// asynq.ErrQueueNotFound, ErrTaskNotFound or notFound("…"), else 1. Several items (queue inspect A B) are done one by one with eachArg: one
// that fails does not keep the others from being done.
//
// Arguments are completed with ValidArgsFunction: a.queueNames; values of flags with cmd.RegisterFlagCompletionFunc.
//
// Tests run commands in-process against a real Redis with golden output: see redis_test.go, and queue_test.go for the pattern.
package main
