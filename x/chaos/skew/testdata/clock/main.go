// Command clock prints what it takes for the time, in Unix seconds, and how long a moment lasts.
package main

import (
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	fmt.Println(start.Unix(), time.Since(start) < time.Minute)
}
