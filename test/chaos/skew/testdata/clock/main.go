// Command clock prints the current time in Unix seconds, and the duration of a short sleep.
package main

import (
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	fmt.Println(start.Unix(), time.Since(start) < time.Minute)
}
