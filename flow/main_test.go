package flow_test

import (
	"testing"

	"github.com/asynq-go/asynq/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
