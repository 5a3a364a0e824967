package main

import (
	"context"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A form is a way to write a handler.
type form struct {
	name  string
	serve http.HandlerFunc
}

// againstHand compares a workflow that takes orders at a path with forms of the same by hand,
// all with more lines of the header. alike fails unless the servers do the same; it gets
// their paths by name.
func (l *lab) againstHand(ctx context.Context, line Line, workflow server.Workflow, path string, forms []form, header string,
	alike func(ctx context.Context, servers []*server.Server, paths map[string]string) error,
) (rows []Row, err error) {
	workflow.Program, workflow.Dir, workflow.Env = l.Binary, l.Dir, environ()
	ours, err := workflow.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, ours)
	servers, paths := []*server.Server{ours}, map[string]string{ours.Name: path}
	for _, form := range forms {
		addr, err := server.FreeAddr()
		if err != nil {
			return nil, err
		}
		s, err := l.serve(ctx, form.name, addr, l.Self, "-serve", addr)
		if err != nil {
			return nil, err
		}
		defer stopInto(&err, s)
		servers, paths[s.Name] = append(servers, s), "/"+form.name+path
	}
	if err := alike(ctx, servers, paths); err != nil {
		return nil, err
	}
	span := time.Second // the first requests do not count
	gen := l.shopLoad(paths, header, &span)
	for _, s := range servers {
		if _, _, _, err := gen(ctx, s); err != nil {
			return nil, err
		}
	}
	span = l.span()
	sides, err := l.compare(ctx, "Go generator", gen, servers...)
	if err != nil {
		return nil, err
	}
	return againstFastest(line, "by hand", servers, sides), nil
}

// againstFastest compares the first side with each of the others. The contract is about the
// fastest of them.
func againstFastest(line Line, what string, servers []*server.Server, sides []side) (rows []Row) {
	fastest := 1
	for i := range sides[1:] {
		if program.Median(sides[i+1].rates) > program.Median(sides[fastest].rates) {
			fastest = i + 1
		}
	}
	for i := 1; i < len(sides); i++ {
		row := versus(line, what+", "+servers[i].Name, sides[0], sides[i])
		row.Side = i != fastest
		rows = append(rows, row)
	}
	return rows
}

// shopLoad sends orders to paths of servers, by name, with more lines of the header.
func (l *lab) shopLoad(paths map[string]string, header string, span *time.Duration) generator {
	return func(ctx context.Context, s *server.Server) (float64, int64, time.Duration, error) {
		o := server.ShopLoad(paths[s.Name])
		o.Addr, o.Duration, o.Header = s.Addr, *span, header
		return loaded(ctx, o)
	}
}
