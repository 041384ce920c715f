// Package flow decides which nodes of a flow start, and carries ends of tasks to flows and tasks to
// their queues. Package flow of the module's root is its API.
package flow
