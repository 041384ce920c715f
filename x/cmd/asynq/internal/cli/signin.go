package cli

import "os"

// signInLinks prints a new sign-in link of the web UI, created by next, for each SIGUSR1 until stop
// is called.
func (a *app) signInLinks(next func() string) (stop func()) {
	wanted, unregister := linkSignals()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-wanted:
				a.printErrf("asynq: sign-in link: %s", next())
			case <-done:
				return
			}
		}
	}()
	return func() {
		unregister()
		close(done)
		<-ended
	}
}

// onceOnly explains that a sign-in link works once.
func onceOnly() string { return "The link signs in one browser, once. " + anotherLink(os.Getpid()) }
