// Command asynq inspects and manages queues and tasks in Redis.
//
// # How to add a command
//
// All commands are in internal/cli, one file per noun (queue.go, server.go): a function newNoun(a
// *app) *cobra.Command builds the noun with its subcommands, and a line in commands (root.go) adds
// it. A command that lists something follows queue ls:
//
//   - addListing(cmd) adds -o, --no-headers, --filter and --watch. A command that selects tasks
//     calls addOutput, addWatch and addScope(a, cmd, true) instead: its --filter is a filter of
//     tasks, read by a.scope(cmd), and it has --queue, --state, --group and --max-scan.
//   - the row is a struct whose json tags (snake_case) are the names for -o json, yaml, template
//     and for --filter
//   - the columns are a []out.Column[row] in a fixed order, those with Wide only for -o wide
//   - RunE ends with list(a, cmd, columns, func(ctx) iter.Seq2[row, error]): rows are written as
//     they arrive, and the function is called once per refresh of --watch. A command with its own
//     filtering uses a.filter(cmd) (the text) and listAll, which ignores the filter.
//
// A command that shows one item ends with a.show(cmd, v, table). A command that changes one item
// reports it with a.printErrf on standard error. A command that deletes or changes in bulk calls
// addBulk(cmd) for --yes and --dry-run, and confirms with a.confirm(cmd, "delete 12 tasks …"),
// which returns false for a dry run.
//
// A flag of one command is defined where the command is built. Flags of several commands have a
// function each: addOutput, addWatch, addFilter and addListing (listing.go), addScope (task.go),
// addBulk (bulk.go). The flags of the connection are in internal/conn (settings.go).
//
// The connection comes from a.inspector(cmd), a.client(cmd) and a.redis(cmd): opened at the first
// call, closed at the end of the command. Never use context.Background: a signal ends
// cmd.Context(). Data goes to a.Out, everything else to a.Err (a.printErrf).
//
// An error that RunE returns is printed once, to standard error, and sets the exit code: 2 for
// usage("…"), 3 for asynq.ErrQueueNotFound, ErrTaskNotFound or notFound("…"), otherwise 1. Several
// items (queue inspect A B) are processed one by one with eachArg, which continues after errors.
//
// Arguments are completed with ValidArgsFunction: a.queueNames; values of flags with
// cmd.RegisterFlagCompletionFunc.
//
// Tests run commands in-process against a real Redis with golden output: see redis_test.go, and
// queue_test.go for the pattern.
package main
