package brokers

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/internal/servertest"
)

// ConnectRedis returns a client, which is closed at the end of the test. The program under test does
// not use it.
func ConnectRedis(tb testing.TB, server *servertest.Redis, password string) rueidis.Client {
	tb.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: password, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
