// Package script runs Lua scripts in Redis. It loads them, sends their calls in pipelines, decodes
// their replies, and keeps the idempotency records of calls that must not run twice. No other
// package sends EVALSHA.
//
// It starts no goroutines, except for commands of a Bounded client. A script reports a result for
// each task as a Code; what Redis or the network refuses is an error of the call.
//
// # Replies
//
// Call.Read returns a Reader, which decodes a reply value by value and remembers the first error:
// that of the call, or a value of another type than requested. Callers check it once, at the end:
//
//	b.Run(ctx, call)
//	r := call.Read()
//	d := due{moved: r.Int(), next: Milliseconds(r.Int())}
//	return d, r.Err()
//
// Call.ReadCodes is for scripts that return a code for each task, and Call.Int for those that
// return one integer.
//
// # Headers
//
// A script begins with a header of comments. Load reads it for the number of KEYS and ARGV, which
// each call must match, and for the include line. TestScriptHeaders and TestScriptIncludes compare
// it with the code.
//
//	-- Deletes tasks and their locks.                   what the script does
//	--
//	-- KEYS[1]    active                                a fixed key; in order, without gaps
//	-- KEYS[2..]  the task's hash, for each task        last: one key for each task
//	-- ARGV[1]    TTL of the daily counter in seconds
//	-- ARGV[2..]  for each task: id, token; then for each lock: number of its task, the lock
//	-- RETURN     for each task: OK or GONE             required
//	-- BOUND      500 tasks                             required: what bounds the work of a call
//	-- include: codes fields held
//
// Two dots after an index mark values that repeat: "NAME, for each task" is one per round, and
// "for each task: A, B, …" is a round of several. A comment in parentheses is ignored, and a line
// indented by at least six spaces after "--" continues the one before. "; then for each lock: …"
// and "; then for each value: …" name values that follow all others.
//
// The code must read each declared value, by a plain index: KEYS[1] for a fixed one; for those that
// repeat, KEYS[k], ARGV[a + 1] or ARGV[2 * i + 1] in a loop over i, k or a, whose start and step
// match the header, or unpack(KEYS, 5).
//
// The include line names shared parts, which Load puts in its place: lua/lib/NAME.lua of the same
// package, or lua/NAME.lua of this one. It names each part that the script needs, a part before
// those that use it, and nothing else.
//
// A line that begins with "-- cluster: " runs only on a Cluster: there, Conn sends the script with
// these lines uncommented. Likewise, a line that begins with "-- members: " runs only in the
// variant of that name; see LoadVariant.
package script
