package dash

func (m *model) listGroups() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Groups"), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No tasks are waiting in groups."
		l.info = plural(len(b.groups), "group")
	}
	l.cols = []column{{title: "QUEUE", minWidth: 8, maxWidth: 40}, {title: "GROUP", minWidth: 8, maxWidth: 80}, {title: "WAITING", right: true}, {title: ""}}
	most := 1
	for _, g := range b.groups {
		most = max(most, g.Size)
	}
	for _, g := range b.groups {
		l.rows = append(l.rows, row{
			key:   g.queue + "\x00" + g.Group,
			ref:   ref{kind: refGroup, queue: g.queue, group: g.Group},
			cells: []cell{text(cleanLine(g.queue)), toned(cleanLine(g.Group), strongTone), count0(g.Size, waitTone), toned(bar(g.Size, most, 16), accentTone)},
		})
	}
	return l
}

// bar draws n relative to most as a bar of up to w cells.
func bar(n, most, w int) string {
	if most <= 0 || n <= 0 {
		return ""
	}
	parts := []rune(" ▏▎▍▌▋▊▉█")
	steps := max(1, n*w*8/most)
	out := make([]rune, 0, w)
	for ; steps >= 8; steps -= 8 {
		out = append(out, '█')
	}
	if steps > 0 {
		out = append(out, parts[steps])
	}
	return string(out)
}
