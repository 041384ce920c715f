// Package site runs the Redis servers of a chaos run on loopback, and breaks them on demand: a single server, a primary with two
// replicas and three Sentinels, or a Cluster of three shards.
//
//	s, err := site.Start(ctx, site.Options{Kind: site.Cluster, MinReplicas: 1})
//	...
//	defer s.Close()
//	address := s.Address()                                     // for the processes under test
//	incident, err := s.Failover(ctx, s.Shards()[0], site.Crash) // what happened, and which writes may be gone
//
// The servers are real processes of the redis-server on the PATH (6.2 or newer; Sentinels are run by the same program). They are
// stopped by process id, and die with the process that started them where the kernel offers that (Linux).
//
// Whatever is done to a site returns when it is over, with an Incident. Unless its context ends before: then the site may be left
// as it was at that moment, with a server down or a slot half moved. Each call bounds its own waits too.
//
// A Site and its nodes may be used by several goroutines at once. Two incidents at the same node at the same time, such as a thaw
// in the midst of a failover by freeze, do what the two of them come to.
package site
