package asynq

import "github.com/asynq-go/asynq/internal/errorkind"

// ErrorKind returns what an error, by its text, has in common with others of the same cause. Use it
// to group and count failed tasks: two errors are of one kind if ErrorKind returns the same text.
// The type of the task is not part of it.
//
// The result is the message, in one line, with placeholders for what varies:
//   - # for numbers, also those with a sign, decimals or a unit ("# rows", "#ms"); sizes are #B;
//   - ‹id› for UUIDs, ULIDs, hexadecimal numbers of at least eight digits, decimal ones as well
//     unless they count something, and other words that look generated. A prefix is kept:
//     "cus_‹id›", "job:‹id›";
//   - ‹time› for dates and times of day, ‹duration› for durations such as 1m30s;
//   - ‹address› for IP addresses with their ports, ‹email›, and ‹path› for paths of files;
//   - ‹text› for quoted text. The names of tables, columns, constraints and JSON fields, quoted
//     URLs and quoted messages of errors are kept.
//
// A URL keeps its scheme, host and path, with placeholders for the variable segments of the path,
// but not its user, password and query. Host names are kept, except for numbers in them.
// Codes are kept: "status 503", "SQLSTATE 23505", "errno 111", "404 Not Found". The texts of
// SkipRetry, RevokeTask, RetryAfter and Snooze are removed from an error that wraps them.
//
// If the text contains a stack of Go, Java, JavaScript, .NET, PHP or Python, the innermost
// functions that are not in libraries follow after " @ ", at most three.
//
// The message is cut at 400 bytes, the functions at 320. The result is valid UTF-8 and its own
// kind. It is empty only if the text has no visible characters. The rules may change in later
// versions, so do not compare the result with stored ones of other versions.
func ErrorKind(text string) string { return errorkind.Of(text) }
