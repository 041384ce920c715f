package doctor

// WithMaxSearch returns the options with a limit of list entries that one script call may search.
func (o Options) WithMaxSearch(n int) Options {
	o.maxSearch = n
	return o
}
