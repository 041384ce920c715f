package site

import (
	"strconv"
	"strings"
	"sync"
)

// Slot returns the Cluster slot of a key: CRC-16 (XMODEM: polynomial 0x1021, from zero) of the text
// in the first braces that are not empty, or of the whole key, modulo 16,384.
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

// probes holds a key for each slot.
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
