package rate

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/acquire.lua
var acquireText string

//go:embed lua/take.lua
var takeText string

var (
	acquireScript = redis.NewScript(acquireText)
	takeScript    = redis.NewScript(takeText)
)
