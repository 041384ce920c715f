package rdb

import "strings"

// LimitArchive makes the archives that the broker trims smaller than the wire format wants them, for tests.
func (b *Broker) LimitArchive(size int) { b.archiveSize = size }

// LimitScans makes a list long for the doctor that has more entries than this, for tests.
func (b *Broker) LimitScans(budget int) { b.scanBudget = budget }

// FindingNumbers returns the numbers of what the doctor's scripts find, by their names in Lua.
func FindingNumbers() map[string]int {
	return map[string]int{
		"SOUND": findingSound, "DANGLING": findingDangling, "STRAY": findingStray, "TWICE": findingTwice, "ORPHAN": findingOrphan,
		"UNLEASED": findingUnleased, "UNREADABLE": findingUnreadable, "STATELESS": findingStateless, "WRONG_TYPE": findingWrongType,
		"ORPHAN_LOCK": findingOrphanLock, "UNNAMED": findingUnnamed, "EMPTY_NAME": findingEmptyName, "UNLISTED": findingUnlisted,
		"EMPTY_SET": findingEmptySet,
	}
}

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
