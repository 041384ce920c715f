// Package redistest gives tests their Redis: a miniredis for each test, and a database of a real
// server where there is one.
//
// A test of a package that uses Redis looks like this:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
//			broker := r.Broker()
//			r.Enqueue(t, "default", 3)
//			...
//		})
//	}
//
// The real server is the one that ASYNQ_TEST_REDIS names (host:port), or else a redis-server on the
// PATH, started for the test binary when the first test needs it. Each test has a database of its
// own there. Channels of pub/sub are the exception: Redis shares them among all databases, so a
// test that cancels tasks uses a namespace of its own.
//
// The package imports rdb for its builders and its invariant check, so rdb's own tests are in
// package rdb_test.
package redistest
