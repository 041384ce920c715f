package ui

// formatted is what a formatter makes of data. One that panics is as good as none.
func formatted(text func(string, []byte) (string, bool), typename string, data []byte) (s string, ok bool) {
	if text == nil {
		return "", false
	}
	defer func() {
		if recover() != nil {
			s, ok = "", false
		}
	}()
	return text(typename, data)
}
