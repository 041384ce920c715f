package site

import (
	"strconv"
	"strings"
	"sync"
)

// Slot is the slot of a key in a Cluster: CRC-16 (XMODEM: polynomial 0x1021, from zero) of the part in the first braces that hold
// anything, or of the whole, modulo 16,384.
func Slot(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}

// probes has a key for each slot.
var probes = sync.OnceValue(func() []string {
	keys := make([]string, slotCount)
	for i, left := 0, slotCount; left > 0; i++ {
		key := "asynq-site-probe:" + strconv.Itoa(i)
		if slot := Slot(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	return keys
})

func keyIn(slot int) string { return probes()[slot] }
