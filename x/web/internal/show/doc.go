// Package show turns numbers, times and bytes into what people read. It knows no HTML and no Redis.
package show
