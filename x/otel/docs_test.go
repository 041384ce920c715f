package asynqotel

import (
	"os"
	"strings"
	"testing"
)

// docs/OTEL.md has all names of the package.
func TestDocsAreComplete(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/OTEL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		string(TaskTypeKey), string(TaskStateKey), string(TaskRetryCountKey), string(TaskMaxRetryKey), string(TaskOutcomeKey),
		string(GroupKey), string(BatchRefusedKey), string(FlowIDKey), string(FlowNodeKey), OutcomeSuccess, OutcomeRetry, OutcomeArchived, OutcomeRevoked, OutcomeSnoozed,
		OutcomeInterrupted, "messaging.client.operation.duration", "messaging.client.sent.messages", "messaging.client.consumed.messages",
		"messaging.process.duration",
	} {
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/OTEL.md lacks %s", key)
		}
	}
}
