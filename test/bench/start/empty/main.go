// Command empty imports nothing, to measure the start of any program.
package main

func main() {}
