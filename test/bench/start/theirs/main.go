// Command theirs only imports the reference, to measure the start of such a program.
package main

import _ "github.com/hibiken/asynq"

func main() {}
