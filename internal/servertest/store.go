//go:build unix

package servertest

import "testing"

// StartStore starts a server of its own for a test of kinds that keep something in redis or postgres. Both keep what
// they have confirmed when they are killed. source is as these kinds have it.
func StartStore(tb testing.TB, driver string) (kill, restart func(), source string) {
	tb.Helper()
	if driver == "redis" {
		r := StartRedis(tb, RedisOptions{})
		return r.Kill, func() { r.Restart(tb) }, "redis://" + r.Addr()
	}
	s, err := StartPostgres("synchronous_commit=on") // else tables may be lost
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return func() { s.Kill(tb) }, func() { s.Restart(tb) }, s.PostgresURL()
}
