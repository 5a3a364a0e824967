package postgres

import (
	"context"
	"slices"
	"strings"
)

// checkPublication finds the publication or makes it. It returns what its comment notes.
func (s *setup) checkPublication(ctx context.Context, l *link) (noted notes, err error) {
	rows, err := l.query(ctx, "SELECT pg_has_role(pubowner, 'USAGE'), coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = %s", literal(s.publication))
	if err != nil {
		return noted, err
	}
	if len(rows) == 0 {
		return noted, s.makePublication(ctx, l)
	}
	noted = parseNotes(rows[0][1])
	if s.create && rows[0][0] != "t" {
		return noted, refused("publication", "%s belongs to another role, so this node cannot note its slot there: ALTER PUBLICATION %s OWNER TO the role; "+
			"or make the slot (SELECT pg_create_logical_replication_slot(%s, 'pgoutput')) and set create: false", s.publication, ident(s.publication), literal(s.slot))
	}
	missing, err := s.unpublished(ctx, l)
	if err != nil || len(missing) == 0 {
		return noted, err
	}
	statement := "ALTER PUBLICATION " + ident(s.publication) + " ADD TABLE " + quoted(missing)
	if !s.create {
		return noted, refused("tables", "%s is not in the publication: %s", missing[0], statement)
	}
	if err := s.checkIdentity(ctx, l, among(missing)); err != nil {
		return noted, err
	}
	return noted, s.run(ctx, l, "tables", statement)
}

func (s *setup) makePublication(ctx context.Context, l *link) error {
	which := " FOR ALL TABLES"
	if len(s.tables) > 0 {
		which = " FOR TABLE " + quoted(s.tables)
	}
	statement := "CREATE PUBLICATION " + ident(s.publication) + which + " WITH (publish_via_partition_root = true)"
	if !s.create {
		return refused("publication", "there is no publication %s: %s", s.publication, statement)
	}
	all := among(s.tables)
	if len(s.tables) == 0 {
		all = "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
	}
	// With such a publication the server would refuse the changes of others.
	if err := s.checkIdentity(ctx, l, all); err != nil {
		return err
	}
	return s.run(ctx, l, "publication", statement)
}

// unpublished returns the tables of the node that the publication does not have.
func (s *setup) unpublished(ctx context.Context, l *link) (missing []table, err error) {
	if len(s.tables) == 0 {
		return nil, nil
	}
	rows, err := l.query(ctx, "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", literal(s.publication))
	if err != nil {
		return nil, err
	}
	for _, t := range s.tables {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == t.schema && row[1] == t.name }) {
			missing = append(missing, t)
		}
	}
	return missing, nil
}

// among is a query of the numbers of tables. It finds them by their names in the catalog, as a
// conversion of a name fails on schemas that the role may not use.
func among(tables []table) string {
	var names []string
	for _, t := range tables {
		names = append(names, "("+literal(t.schema)+", "+literal(t.name)+")")
	}
	return "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) IN (" + strings.Join(names, ", ") + ")"
}

// published is a query of the numbers of the tables whose changes are read.
func (s *setup) published() string {
	text := `SELECT c.oid FROM pg_publication u JOIN pg_publication_tables p USING (pubname) JOIN pg_namespace n ON n.nspname = p.schemaname
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE (u.pubupdate OR u.pubdelete) AND u.pubname = ` + literal(s.publication)
	if len(s.tables) > 0 {
		text += " AND c.oid IN (" + among(s.tables) + ")"
	}
	return text
}

// checkIdentity checks that the server can tell the rows of tables apart. The changes of a table
// with partitions are those of its partitions.
func (s *setup) checkIdentity(ctx context.Context, l *link, tables string) error {
	rows, err := l.query(ctx, `WITH t AS (%s) SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE (c.oid IN (SELECT oid FROM t) OR c.oid IN (SELECT p.relid FROM t, pg_partition_tree(t.oid) p WHERE p.isleaf)) AND c.relkind = 'r'
		AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)) ORDER BY 1, 2`, tables)
	if err != nil || len(rows) == 0 {
		return err
	}
	t := table{rows[0][0], rows[0][1]}
	return refused("tables", "%s has no replica identity: the server would refuse its updates and deletes. Add a primary key, or ALTER TABLE %s REPLICA IDENTITY FULL; "+
		"a publication that you make with publish = 'insert' needs neither", t, t.quoted())
}
