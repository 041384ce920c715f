package testenv

import (
	"flag"
	"testing"

	"github.com/asynq-go/asynq/internal/redistest"
)

// Main runs the tests of a package that uses Env. Unless the flag -test.parallel is given, it runs
// ten tests at a time, because most tests spend most of their time waiting, for example for a lease
// to expire or a retry to become due.
func Main(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "10"); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}
