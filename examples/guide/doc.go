// Package guide holds the code of docs/GUIDE.md: whole functions that the tests of this package
// run. The programs of the README are in producer and worker.
package guide
