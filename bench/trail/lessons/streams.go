package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
)

// nodes is how many data nodes there are.
const nodes = 4

// streamQuestions are a reply of three numbers and one of some thousands.
func streamQuestions() []struct{ name, doc string } {
	return []struct{ name, doc string }{
		{"funnel", "funnel: {steps: [view, cart, purchase], within: 7d}"},
		{"day x country", "segment: {where: {campaign: exists}, bucket: day, by: [country]}"},
	}
}

// A streamFigures is what asking on so many streams found.
type streamFigures struct {
	Question string  `json:"question"`
	Streams  int     `json:"streams"` // by question
	Nodes    int     `json:"nodes"`
	Clients  int     `json:"clients"` // that ask at once
	MS       float64 `json:"ms"`      // by question, median
	Bytes    float64 `json:"bytes"`   // over the connections, by question
	samples  []float64
}

// A cluster is nodes that have all shards, and connections to them.
type cluster struct {
	nodes   []*node
	clients []*client
	bytes   atomic.Int64
}

// newCluster divides shards among so many nodes; closing it leaves the shards.
func newCluster(all []*trail.Store, queries []*query.Query, count int) (*cluster, error) {
	c := &cluster{}
	for i := range count {
		n := &node{shards: all[i*len(all)/count : (i+1)*len(all)/count], queries: queries}
		if err := n.start(); err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.nodes = append(c.nodes, n)
		conn, err := dial(n.addr, &c.bytes)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.clients = append(c.clients, conn)
	}
	return c, nil
}

func (c *cluster) close() error {
	var errs []error
	for _, conn := range c.clients {
		errs = append(errs, conn.conn.Close())
	}
	for _, n := range c.nodes {
		n.close()
	}
	return errors.Join(errs...)
}

// ask asks all shards: on a stream for each node, or on one for each shard.
func (c *cluster) ask(ctx context.Context, question int, each bool) (partial, error) {
	type part struct {
		partial partial
		err     error
	}
	var parts []*part
	var streams sync.WaitGroup
	for i, n := range c.nodes {
		step := len(n.shards)
		if each {
			step = 1
		}
		for from := 0; from < len(n.shards); from += step {
			p := &part{}
			parts = append(parts, p)
			streams.Go(func() { p.partial, p.err = c.clients[i].ask(ctx, ask{question, from, step}) })
		}
	}
	streams.Wait()
	total := partial{}
	for _, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
		total.add(p.partial)
	}
	return total, nil
}

// makeShards makes a store for each shard, of the users whose hash is in its range.
func makeShards(ctx context.Context, dir string, events, shards int) ([]*trail.Store, error) {
	g := trailtest.Ecom{Seed: 1, Events: events}
	schema := g.Schema()
	parts := make([][]event.Event, shards)
	for row := range g.Rows() {
		i := int(event.Hash(row.User)>>56) * shards / 256
		parts[i] = append(parts[i], row.Event(schema))
	}
	var all []*trail.Store
	fill := func(path string, part []event.Event) (err error) {
		s, err := trail.Open(path, trail.Options{NoSync: true, FlushEvery: -1})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return s.Append(ctx, part)
	}
	for i, part := range parts {
		path := filepath.Join(dir, fmt.Sprintf("shard-%03d", i))
		if err := fill(path, part); err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		s, err := trail.Open(path, trail.Options{ReadOnly: true})
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, s)
	}
	return all, nil
}

func closeAll(stores []*trail.Store) error {
	var errs []error
	for _, s := range stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// A layout is how many nodes there are, and whether each shard has a stream.
type layout struct {
	nodes int
	each  bool
}

func (l layout) streams(shards int) int {
	if l.each {
		return shards
	}
	return l.nodes
}

// streamQuestionsEach is how many questions a client asks in a round.
const streamQuestionsEach = 5

// streams asks the same questions on one stream, on one for each node, and on one
// for each shard, of one client and of eight at once.
func streams(ctx context.Context, c *config, dir string) (got []streamFigures, err error) {
	c.progress("streams: making %d shards", c.shards)
	all, err := makeShards(ctx, dir, c.events/5, c.shards)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	var queries []*query.Query
	for _, q := range streamQuestions() {
		parsed, err := query.Parse(q.name, []byte(q.doc))
		if err != nil {
			return nil, err
		}
		queries = append(queries, parsed)
	}
	layouts := []layout{{1, false}, {nodes, false}, {nodes, true}}
	clusters := make([]*cluster, len(layouts))
	for i, l := range layouts {
		if clusters[i], err = newCluster(all, queries, l.nodes); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, clusters[i].close()) }()
	}
	for q, question := range streamQuestions() {
		if err := sameAnswers(ctx, layouts, clusters, q); err != nil {
			return nil, err
		}
		for _, clients := range []int{1, 8} {
			cell := make([]streamFigures, len(layouts))
			for i, l := range layouts {
				cell[i] = streamFigures{Question: question.name, Streams: l.streams(len(all)), Nodes: l.nodes, Clients: clients}
			}
			c.progress("streams: %s, %d at once, %d rounds", question.name, clients, c.rounds)
			for round := range c.rounds {
				for k := range layouts {
					i := (k + round) % len(layouts)
					if err := cell[i].round(ctx, clusters[i], q, layouts[i].each); err != nil {
						return nil, err
					}
				}
			}
			for i := range cell {
				cell[i].MS, cell[i].Bytes = median(cell[i].samples), cell[i].Bytes/float64(c.rounds)
			}
			got = append(got, cell...)
		}
	}
	return got, nil
}

// sameAnswers wants all layouts to answer alike.
func sameAnswers(ctx context.Context, layouts []layout, clusters []*cluster, question int) error {
	var want partial
	for i, l := range layouts {
		got, err := clusters[i].ask(ctx, question, l.each)
		if err != nil {
			return err
		}
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) || len(got) == 0 {
			return fmt.Errorf("%+v answers %d numbers that are not those of one stream", l, len(got))
		}
	}
	return nil
}

// round has clients ask a few times; it adds the times and the bytes by question.
func (f *streamFigures) round(ctx context.Context, c *cluster, question int, each bool) error {
	times, errs := make([][]float64, f.Clients), make([]error, f.Clients)
	before := c.bytes.Load()
	var clients sync.WaitGroup
	for i := range f.Clients {
		clients.Go(func() {
			for range streamQuestionsEach {
				begin := time.Now()
				if _, errs[i] = c.ask(ctx, question, each); errs[i] != nil {
					return
				}
				times[i] = append(times[i], float64(time.Since(begin).Microseconds())/1e3)
			}
		})
	}
	clients.Wait()
	for _, t := range times {
		f.samples = append(f.samples, t...)
	}
	f.Bytes += float64(c.bytes.Load()-before) / float64(f.Clients*streamQuestionsEach)
	return errors.Join(errs...)
}
