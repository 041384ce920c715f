package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// synctestRun runs a test with a fake clock. It sets the origin of uptime to an hour before its
// start.
func synctestRun(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := started
		started = time.Now().Add(-time.Hour)
		t.Cleanup(func() { started = before })
		test(t)
	})
}
