package rdb

import "strings"

// LimitArchive makes the archives that the broker trims smaller than the wire format wants them, for tests.
func (b *Broker) LimitArchive(size int) { b.archiveSize = size }

// ScriptNames returns the name of every script by its SHA-1.
func ScriptNames() map[string]string {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		panic(err)
	}
	names := make(map[string]string)
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), ".lua"); ok {
			names[loadScript(name).sha.(string)] = name
		}
	}
	return names
}
