// Package service is a queue service over HTTP: programs in any language enqueue tasks, and work on them.
package service
