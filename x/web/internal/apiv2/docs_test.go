package apiv2

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// TestExamplesOfTheGuide runs each line of the guide that starts with curl, in order.
func TestExamplesOfTheGuide(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			t.Fatal("no curl on the PATH")
		}
		t.Skip("no curl on the PATH")
	}
	s := newSite(t, nil)
	s.many(3, "mail", "a", asynq.ProcessIn(time.Hour))
	s.many(3, "low", "a", asynq.ProcessIn(time.Hour))
	order := flow.New("order-42")
	charge := order.Add("charge", asynq.NewTask("charge", nil))
	order.Add("pack", asynq.NewTask("pack", nil)).After(charge)
	if _, err := flow.Start(t.Context(), s.client, order); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/monitor", s.api))
	t.Cleanup(server.Close)
	guide, err := os.ReadFile("../../../../docs/WEB_API_V2.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(guide)) {
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		cmd := exec.Command("sh", "-c", "exec "+line)
		cmd.Env = append(os.Environ(), "URL="+server.URL+"/monitor", "no_proxy=*")
		out, err := cmd.Output()
		if err != nil || len(out) > 0 && !json.Valid(out) {
			t.Errorf("%s%v: %s", line, err, out)
		}
	}
	if n < 20 {
		t.Errorf("the guide has %d examples", n)
	}
}

// The table of the guide has all kinds of problems.
func TestGuideListsAllProblems(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../../docs/WEB_API_V2.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		kindInvalid, kindQueue, kindTask, kindEntry, kindFlow, kindServer, kindRemote, kindIDConflict, kindDuplicate, kindState, kindNotEmpty, kindChanged, kindRedis,
		kindRedisFull, kindUnavailable,
	} {
		if !strings.Contains(string(guide), "`"+kind+"`") {
			t.Errorf("the guide does not mention %s", kind)
		}
	}
}
