// Package keep keeps values under keys for kinds that remember something from one process to the
// next, also after the program has ended: what a session has, and which keys are claimed and done.
//
// A kind has a group of fields, see [Fields], and reads it with [New]. Then [Place.Open] gives the
// [Store], which is shared with all nodes that name the same place. Every store passes the same tests.
// The package must not know what the values mean.
package keep

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Store keeps values. Any goroutine may call its methods.
type Store interface {
	// Load returns what is kept under a key; the zero Kept if nothing is, or if it has expired.
	// The version is right even then.
	Load(ctx context.Context, key string, now time.Time) (Kept, error)

	// Save keeps k in place of what had its version; without values it removes that. With
	// There, that must not have been removed in the meantime. What has another version is
	// [ErrConflict].
	Save(ctx context.Context, key string, k Kept, now time.Time) error

	// Blocks reports whether Load and Save wait for something outside.
	Blocks() bool
	Close() error
}

// A Kept is what a store keeps under a key.
type Kept struct {
	Stamp
	Values value.Value // a map; null for none
}

// A Stamp is what a store knows of it.
type Stamp struct {
	Until   time.Time // zero is for ever
	Version int64     // of what was loaded; 0 for none
	There   bool      // something was loaded
}

// Expired reports whether it is not kept any more.
func (k *Stamp) Expired(now time.Time) bool { return !k.Until.IsZero() && !now.Before(k.Until) }

// ErrConflict is the error of Save if something else was saved since Load.
var ErrConflict = &node.Error{
	Err:  errors.New("another engine has changed it meanwhile"),
	Code: "conflict", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
}

// ErrNoMemory is the error of Save if the program has no memory for it.
var ErrNoMemory = &node.Error{Err: errors.New("the program has no memory left for this"), Status: http.StatusServiceUnavailable, Code: "busy", RetryAfter: time.Second}

// InMemory is the driver of a store that ends with the program.
const InMemory = "memory"

const inRedis = "redis"

// Fields are the fields of a store. what names in the plural what is kept, and more are further fields.
func Fields(what, table, shared string, more ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.Enum("driver", InMemory, "sqlite", "postgres", inRedis).Default(InMemory).Doc("The store."),
		schema.String("source").Secret().Doc("Where the database is: a file, `postgres://user:password@host:5432/name`, or `redis://user:password@host:6379/0`, with TLS `rediss`."),
		schema.String("table").Default(table).Doc("The table; in Redis, what keys begin with" + shared),
	}, more...)...)
}

// SharedFields are the fields of a store that programs share, where memory is what a kind has by itself. pass says
// what the kind does with a payload while the store cannot be reached.
func SharedFields(table, shared, pass string) schema.Object {
	return schema.Fields(
		schema.Enum("driver", InMemory, "postgres", inRedis).Default(InMemory).Doc("The store."),
		schema.String("source").Secret().Doc("Where the database is: `postgres://user:password@host:5432/name`, or `redis://user:password@host:6379/0`, with TLS `rediss`."),
		schema.String("table").Default(table).Doc("The table; in Redis, what keys begin with"+shared),
		Unavailable(pass),
	)
}

// A Place is where values are kept, as a config names it.
type Place struct {
	Shared string         // stands for it in the pool of an engine; without a database also for the namespace
	db     *data.Database // nil unless it is one of SQL
	redis  *redisPlace    // nil unless it is that
	log    *slog.Logger
	table  string
	what   string
}

// tableName is what a name of a table looks like.
var tableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)
})

// exampleSources are for hints.
var exampleSources = map[string]string{"sqlite": "shop.db", "postgres": "postgres://user:password@localhost:5432/shop", inRedis: "redis://user:password@localhost:6379/0"}

// New reads a group with the Fields of what.
func New(init *node.Init, at schema.Config, what string) (*Place, error) {
	p := &Place{table: at.String("table"), log: init.Log, what: what}
	if !tableName().MatchString(p.table) {
		return nil, at.Errorf("table", diag.CodeBadValue, "is not the name of a table").WithHint("want letters, digits and _, such as shop_%s", what)
	}
	driver := at.String("driver")
	source := sha256.Sum256([]byte(at.String("source"))) // a key is shown in messages, and a source may have a password
	p.Shared = fmt.Sprintf("%s %s %x %q", what, driver, source, p.table)
	switch {
	case driver != InMemory && at.String("source") == "":
		return nil, at.Errorf("source", diag.CodeBadValue, "is missing").WithHint("write where the database is, such as %s", exampleSources[driver])
	case driver == inRedis:
		var err error
		p.redis, err = newRedisPlace(init, at, p.table)
		return p, err
	case driver != InMemory:
		var err error
		p.db, err = data.NewDatabase(init, at)
		return p, err
	case at.Has("source"):
		return nil, at.Errorf("source", diag.CodeBadValue, "is for a database").WithHint("write its driver, such as driver: postgres or driver: redis, or leave it out")
	}
	p.Shared += " " + init.Node.Namespace
	return p, nil
}

// InMemory reports whether it is the memory of the program.
func (p *Place) InMemory() bool { return p.db == nil && p.redis == nil }

// Open connects to the database, and makes the table if there is none; held counts the bytes of a store
// in memory. Redis may be away: then it is looked for in the background. Close the store.
func (p *Place) Open(ctx context.Context, held *node.Account) (Store, error) {
	switch {
	case p.InMemory():
		return NewMemory(held), nil
	case p.redis != nil:
		s, err := p.redis.open(ctx)
		if err != nil { // a nil *redisStore is a Store
			return nil, err
		}
		return s, nil
	}
	s := newSQLStore(p.db, p.log, p.table, p.what)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}
