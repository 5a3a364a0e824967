// Package redis has the kinds whose nodes exchange data with Redis.
//
// Each kind is one literal, in a file of its name; that of redis is here, and its node in
// command.go. redis_source opens a streamReader, a listReader or a channelReader, as its field
// mode says; redis_sink opens a writer. Connections are those of package client. The package must
// not know how processes are run.
package redis

import (
	_ "embed"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	defs := []*node.Def{commandDef(o), source().Def(o), sink().Def(o)}
	for _, def := range defs {
		def.Role, def.Lint = node.Connects, field.LintTLS
	}
	return defs
}

//go:embed redis.md
var redisPage string

func commandDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "redis",
		Summary: "Runs commands of Redis.",
		Page:    node.ReadPage(redisPage),
		Config: client.Fields(
			schema.Any("command").Doc("The command, a list of texts that may have expressions over the payload in them: `[GET, 'user:${self.id}']`. A list of commands runs them together. Unset, the payload is the command."),
			schema.Bool("transaction").Default(false).Doc("Runs the commands as one transaction (MULTI and EXEC): no other command runs between them."),
			schema.Bytes("max_answer").Default("16MiB").Range(1<<10, 512<<20).Doc("How large an answer may be. A larger one is an error, and ends the connection."),
			schema.Duration("timeout").Default("5s").Range(float64(time.Millisecond), float64(24*time.Hour)).Doc("How long the answer may take. It uses the real clock, also in tests that set another one."),
			schema.Int("max_in_flight").Default(1024).Range(1, 1_000_000).Doc("How many packets of one process may wait for their answers."),
		),
		In:  []node.Port{{Name: "in", Doc: "What the expressions see, or the command."}},
		Out: []node.Port{{Name: "out", Doc: "The answer; a list of answers for a list of commands."}},
		Recall: func(c schema.Config) node.Recall {
			if onlyReads(c.Raw("command")) {
				return node.Reads
			}
			return node.Effects
		},
		New: func(init *node.Init) (node.Node, error) { return newCommander(o, init) },
	}
}

// reading are usual commands that change nothing.
var reading = []string{
	"BITCOUNT", "DBSIZE", "EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HVALS", "LINDEX", "LLEN", "LRANGE",
	"MGET", "PING", "PTTL", "SCARD", "SISMEMBER", "SMEMBERS", "STRLEN", "TTL", "TYPE", "XINFO", "XLEN", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT",
	"ZRANGE", "ZRANK", "ZSCORE",
}

// onlyReads reports whether a command, or each of a list, is one of those.
func onlyReads(raw *schema.Raw) bool {
	if raw == nil || raw.Kind != schema.RawList || len(raw.Items) == 0 {
		return false
	}
	if raw.Items[0].Kind == schema.RawList {
		return !slices.ContainsFunc(raw.Items, func(item *schema.Raw) bool { return !onlyReads(item) })
	}
	name, _ := raw.Items[0].Value.AsString()
	return slices.Contains(reading, strings.ToUpper(name))
}
