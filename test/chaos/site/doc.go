// Package site runs the Redis servers of a chaos run on loopback, and injects faults: a standalone
// server, a primary with two replicas and three Sentinels, or a Cluster of three shards.
//
//	s, err := site.Start(ctx, site.Options{Kind: site.Cluster, MinReplicas: 1})
//	...
//	defer s.Close()
//	address := s.Address()                                     // for the processes under test
//	incident, err := s.Failover(ctx, s.Shards()[0], site.Crash) // what happened, and which writes may be lost
//
// The servers are processes of the redis-server on the PATH (6.2 or newer), which also runs the
// Sentinels. They are stopped by process ID, and on Linux they die with the process that started
// them.
//
// Methods that inject a fault return an Incident when the site has recovered. If their context is
// canceled, the site may stay in its current state, with a server down or a slot half migrated.
// Each method limits its own waits as well.
//
// A Site and its nodes are safe for concurrent use. Concurrent incidents at the same node, such as
// a thaw during a failover by freeze, have their combined effect.
package site
