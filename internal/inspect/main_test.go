package inspect_test

import (
	"testing"

	"github.com/asynq-go/asynq/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
