// Package prose checks the prose of the repository: the comments, the texts that users read, the
// documentation, and the words in the names of declarations and files.
//
// [CheckFile] extracts the prose of one file and applies three kinds of rules to it. Word rules are
// regular expressions for constructs and words that the repository avoids. Name rules ban words in
// identifiers and in file names. The width rule limits lines of comments and of Markdown to
// [MaxColumns] columns. [CheckTree] checks all files below a directory.
//
// To check one directory only, or to print all findings instead of the first 200:
//
//	PROSE_DIR=internal/rdb go test ./internal/prose
//	PROSE_ALL=1 go test ./internal/prose
//
// A rule must be precise: a reader who gets a false finding stops reading the others. Narrow the
// pattern of such a rule, or add the case to its except pattern.
package prose
