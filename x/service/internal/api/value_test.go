package api

import (
	"sync"
	"testing"
)

// The decoder modifies the errors of its own types, so requests must not share one. The race
// detector reports it.
func TestErrorsOfValuesAreNotShared(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var body struct {
				In *Duration `json:"in"`
				At *Time     `json:"at"`
			}
			for range 100 {
				p := Unmarshal([]byte(`{"in":"soon","at":"noon"}`), "", &body)
				if p == nil || len(p.Errors) != 2 {
					t.Errorf("%+v, want two errors", p)
					return
				}
			}
		})
	}
	group.Wait()
}
