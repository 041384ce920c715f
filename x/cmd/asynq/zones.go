//go:build tzdata

package main

// For machines without time zones. With the tag timetzdata, a build would compile all packages
// again.
import _ "time/tzdata"
