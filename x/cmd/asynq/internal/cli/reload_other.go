//go:build !unix

package cli

// reloadSignals passes nothing on: there is no signal for it.
func reloadSignals() (reload <-chan struct{}, stop func()) { return nil, func() {} }
