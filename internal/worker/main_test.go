package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test under a clock of its own, which stands still while anything can go on. The uptime counts from the bubble's
// beginning,
// less an hour.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := started
		started = time.Now().Add(-time.Hour)
		t.Cleanup(func() { started = before })
		test(t)
	})
}
