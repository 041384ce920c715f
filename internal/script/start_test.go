package script_test

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/script"
)

// No script is prepared before its first call: a program that imports the library starts at once.
func TestStartPreparesNoScript(t *testing.T) {
	t.Parallel()
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$") //nolint:gosec // this program
	self.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := self.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	inits := regexp.MustCompile(`init \S+/asynq/(internal/script|internal/rdb|internal/inspect|x/doctor) .* (\d+) bytes`).FindAllStringSubmatch(string(trace), -1)
	if len(inits) < 3 {
		t.Fatalf("the trace has %d packages:\n%s", len(inits), trace)
	}
	for _, init := range inits {
		if n, _ := strconv.Atoi(init[2]); n > 30_000 {
			t.Errorf("the start of %s allocates %d bytes", init[1], n)
		}
	}
}

func TestNameOf(t *testing.T) {
	sum := sha1.Sum([]byte("return ARGV[1]\n")) //nolint:gosec // See the import.
	if name := script.NameOf(hex.EncodeToString(sum[:])); name != "echo" {
		t.Errorf("name %q", name)
	}
	if name := script.NameOf(strings.Repeat("0", 40)); name != "" {
		t.Errorf("name %q of a script that does not exist", name)
	}
}
