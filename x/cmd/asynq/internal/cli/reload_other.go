//go:build !unix

package cli

// reloadSignals returns a nil channel: this system has no such signal.
func reloadSignals() (reload <-chan struct{}, stop func()) { return nil, func() {} }

// linkSignals returns a nil channel: this system has no such signal.
func linkSignals() (wanted <-chan struct{}, stop func()) { return nil, func() {} }

// anotherLink explains how to get another sign-in link.
func anotherLink(int) string { return "For another link, restart the program." }
