package asynqotel

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each Go block of docs/OTEL.md is in an example, which is compiled.
func TestDocsAreCompiled(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/OTEL.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	indent := regexp.MustCompile(`(?m)^\t+`)
	source := indent.ReplaceAllString(string(examples), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 4 {
		t.Fatalf("found %d Go blocks", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, indent.ReplaceAllString(block[1], "")) {
			t.Errorf("this block is in no example:\n%s", block[1])
		}
	}
}

// All that the package tells is in docs/OTEL.md.
func TestDocsAreComplete(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/OTEL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		string(TaskTypeKey), string(TaskStateKey), string(TaskRetryCountKey), string(TaskMaxRetryKey), string(TaskOutcomeKey),
		string(GroupKey), string(BatchRefusedKey), OutcomeSuccess, OutcomeRetry, OutcomeArchived, OutcomeRevoked, OutcomeSnoozed,
		OutcomeInterrupted, "messaging.client.operation.duration", "messaging.client.sent.messages", "messaging.client.consumed.messages",
		"messaging.process.duration",
	} {
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/OTEL.md does not tell of %s", key)
		}
	}
}
