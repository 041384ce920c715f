package ui

import (
	"html/template"
)

// icons are drawn with lines of width 1.5 on a 16 by 16 grid.
var icons = map[string]template.HTML{
	"overview":   `<path d="M2.5 13.5v-5m3.7 5v-11m3.6 11v-7m3.7 7v-4"/>`,
	"queues":     `<path d="M2.5 4h11m-11 4h11m-11 4h7"/>`,
	"tasks":      `<rect x="2.5" y="2.5" width="11" height="11" rx="2"/><path d="m5.5 8 1.8 1.8 3.4-3.6"/>`,
	"search":     `<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3 3"/>`,
	"errors":     `<path d="M8 2.2 14.3 13H1.7z"/><path d="M8 6.5v3m0 1.6v.1"/>`,
	"types":      `<path d="M8.8 2.5h4.7v4.7L7.3 13.4 2.6 8.7z"/><path d="M11 5v.1"/>`,
	"groups":     `<rect x="2.5" y="5.5" width="8" height="8" rx="1.5"/><path d="M5.5 3.5v-1h8v8h-1"/>`,
	"flows":      `<rect x="1.5" y="6" width="4" height="4" rx="1"/><rect x="10.5" y="2" width="4" height="4" rx="1"/><rect x="10.5" y="10" width="4" height="4" rx="1"/><path d="M5.5 8H8m2.5-4H8v8h2.5"/>`,
	"servers":    `<rect x="2.5" y="2.5" width="11" height="4.5" rx="1"/><rect x="2.5" y="9" width="11" height="4.5" rx="1"/><path d="M5 4.75v.01M5 11.25v.01"/>`,
	"schedulers": `<circle cx="8" cy="8" r="5.75"/><path d="M8 4.75V8l2.25 1.5"/>`,
	"redis":      `<path d="M2.5 4.5 8 2.2l5.5 2.3L8 6.8zM2.5 8 8 10.3 13.5 8m-11 3.5L8 13.8l5.5-2.3"/>`,
	"operations": `<path d="M13.3 6.5A5.5 5.5 0 0 0 3.5 5m-.8 4.5a5.5 5.5 0 0 0 9.8 1.5M3.3 2.2v3h3m6.4 8.6v-3h-3"/>`,
	"audit":      `<path d="M4 2.5h8v11H4zM6.2 5.5h3.6m-3.6 2.5h3.6m-3.6 2.5H8"/>`,
	"settings":   `<path d="M2.5 4.5h6m3 0h2m-11 7h2m3 0h6"/><circle cx="10" cy="4.5" r="1.6"/><circle cx="6" cy="11.5" r="1.6"/>`,
	"enqueue":    `<path d="M8 3v10M3 8h10"/>`,
	"pause":      `<path d="M5.5 3.5v9m5-9v9"/>`,
	"play":       `<path d="m4.5 3 8 5-8 5z"/>`,
	"trash":      `<path d="M3 4.5h10m-6.5 0v-2h3v2m-5.3 0 .6 9h6.4l.6-9M6.8 7v4m2.4-4v4"/>`,
	"archive":    `<rect x="2.5" y="3" width="11" height="3" rx=".8"/><path d="M3.5 6v7h9V6M6.5 8.7h3"/>`,
	"cancel":     `<circle cx="8" cy="8" r="5.75"/><path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4"/>`,
	"copy":       `<rect x="5.5" y="5.5" width="8" height="8" rx="1.5"/><path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>`,
	"edit":       `<path d="m3 13 .6-2.9 7.2-7.2 2.3 2.3L5.9 12.4zM9.5 4.2l2.3 2.3"/>`,
	"clock":      `<circle cx="8" cy="8" r="5.75"/><path d="M8 4.75V8l2.25 1.5"/>`,
	"check":      `<path d="m3 8.5 3.3 3.3L13 4.8"/>`,
	"warning":    `<path d="M8 2.2 14.3 13H1.7z"/><path d="M8 6.5v3m0 1.6v.1"/>`,
	"notice":     `<circle cx="8" cy="8" r="5.75"/><path d="M8 7.5V11m0-6v.1"/>`,
	"next":       `<path d="m6 3.5 4.5 4.5L6 12.5"/>`,
	"back":       `<path d="M10 3.5 5.5 8l4.5 4.5"/>`,
	"down":       `<path d="M3.5 6 8 10.5 12.5 6"/>`,
	"menu":       `<path d="M2.5 4h11m-11 4h11m-11 4h11"/>`,
	"light":      `<circle cx="8" cy="8" r="2.8"/><path d="M8 1.5v1.3m0 10.4v1.3M1.5 8h1.3m10.4 0h1.3M3.4 3.4l.9.9m7.4 7.4.9.9m0-9.2-.9.9m-7.4 7.4-.9.9"/>`,
	"dark":       `<path d="M13 9.8A5.6 5.6 0 0 1 6.2 3 5.6 5.6 0 1 0 13 9.8z"/>`,
	"system":     `<circle cx="8" cy="8" r="5.75"/><path d="M8 2.25v11.5a5.75 5.75 0 0 0 0-11.5" fill="currentColor"/>`,
	"logout":     `<path d="M6.5 2.5h-4v11h4m-.5-5.5h7.5m-3-3 3 3-3 3"/>`,
	"download":   `<path d="M8 2.5v7.5m-3-3 3 3 3-3M3 13.5h10"/>`,
}

// icon returns an icon. It is hidden from screen readers: a text or a label must accompany it.
func icon(name string) template.HTML {
	drawing, ok := icons[name]
	if !ok {
		panic("unknown icon " + name) // a bug in a template; tests detect it
	}
	return `<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">` + drawing + `</svg>`
}
