package postgres

import (
	_ "embed"
	"regexp"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed postgres_cdc.md
var cdcPage string

func cdc() stream.Source {
	return stream.Source{
		Kind:    "postgres_cdc",
		Summary: "Starts a process for each change of the rows of PostgreSQL.",
		Page:    node.ReadPage(cdcPage),
		Config: schema.Fields(
			schema.String("source").Required().Secret().Doc("Where the database is, as for `sql`."),
			schema.String("slot").Required().Doc("The replication slot, which keeps how far the changes are read. Lower-case letters, digits and `_`."),
			schema.String("publication").Required().Doc("The publication, which says what changes there are."),
			schema.Strings("tables").Doc("The tables to read, such as `orders` or `shop.Orders`, in the letters that the database has. Unset, all of the publication."),
			schema.Bool("create").Default(true).Doc("Makes the slot and the publication if they do not exist, and adds tables to it."),
			schema.Enum("snapshot", "initial", "never").Default("initial").Doc("Whether the rows that are there when the slot is made come first."),
			schema.Enum("message", "change", "transaction").Default("change").Doc("What a message holds: a change of a row, or the list of all changes of a transaction."),
			schema.Bytes("max_lag").Range(1, 1<<50).Doc("If the slot keeps more bytes of WAL on the server, the program is not ready."),
		),
		Traits: stream.Traits{Positions: true, Raw: true, Order: stream.OrderTotal},
		Holds: func(c schema.Config) []node.Hold {
			return []node.Hold{{What: "replication slot", Name: c.String("source") + " " + c.String("slot"), Field: "slot", Hint: "give each node a slot of its own"}}
		},
		Open: openCDC,
	}
}

var slotName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]{1,63}$`) })

func openCDC(init *node.Init) (stream.Reader, error) {
	c := init.Config
	config, err := data.PostgresConfig(c)
	if err != nil {
		return nil, err
	}
	s := setup{slot: c.String("slot"), publication: c.String("publication"), create: c.Bool("create")}
	if !slotName().MatchString(s.slot) {
		return nil, c.Errorf("slot", diag.CodeBadValue, "%q cannot be the name of a slot", s.slot).WithHint("use up to 63 lower-case letters, digits and _, such as shop_search")
	}
	if s.publication == "" || len(s.publication) > 63 {
		return nil, c.Errorf("publication", diag.CodeBadValue, "%q cannot be the name of a publication", s.publication).WithHint("write one such as shop")
	}
	for _, name := range c.Strings("tables") {
		t := parseTable(name)
		if t.schema == "" || t.name == "" {
			return nil, c.Errorf("tables", diag.CodeBadValue, "%q is not a table", name).WithHint("write one such as orders or shop.orders")
		}
		s.tables = append(s.tables, t)
	}
	r := &changeReader{
		config: config, setup: s, snapshots: c.String("snapshot") == "initial", clock: init.Clock, log: init.Log,
		side: side{config: config}, progress: newProgress(),
	}
	r.decoder = decoder{
		side: &r.side, progress: r.progress, tables: s.tables, whole: c.String("message") == "transaction",
		most: stream.InFlight(c), bytes: int(c.Int("bytes") / 4),
	}
	if c.Has("max_lag") {
		r.maxLag = c.Int("max_lag")
	}
	return r, nil
}
