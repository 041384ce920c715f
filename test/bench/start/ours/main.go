// Command ours only imports this library, to measure the start of such a program.
package main

import _ "github.com/asynq-go/asynq"

func main() {}
