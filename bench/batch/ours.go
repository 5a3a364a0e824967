package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

const (
	nameOurs  = "ours"
	nameSpool = "ours, spool"
)

// ours returns our arms: in memory, and with every event written to disk ahead.
func ours() []arm.Design {
	return []arm.Design{
		ourDesign(nameOurs, false),
		ourDesign(nameSpool, true),
	}
}

func ourDesign(name string, ahead bool) arm.Design {
	const pkg = "github.com/uniflow-labs/uniflow/batch."
	return arm.Design{
		Name: name, Load: arm.Open, Tells: true,
		Make: func(o arm.Options) (arm.Subject, error) { return newOurs(o, ahead) },
		// All functions of the package and its sub-packages. None of them copies
		// encoded events: they are sent from the memory they were written to. So
		// copies are functions that clone bytes, and any that is named so.
		Under:  []string{pkg, "github.com/uniflow-labs/uniflow/batch/"},
		Copies: []string{"slices.Clone", "bytes.Clone", "bytes.Join", "slices.Concat", pkg + "copy", pkg + "clone", pkg + "(*chunk).copy", pkg + "(*chunk).clone"},
	}
}

// A subject is our processor.
type subject struct {
	p  *batch.Processor[arm.Event]
	mu struct {
		sync.Mutex
		dropped map[string]int64
	}
}

func newOurs(o arm.Options, ahead bool) (*subject, error) {
	send, err := batch.NewHTTP(o.URL, batch.HTTPOptions{})
	if err != nil {
		return nil, err
	}
	s := &subject{}
	s.mu.dropped = make(map[string]int64)
	c := batch.Options[arm.Event]{
		Encode:  func(dst []byte, e *arm.Event) ([]byte, error) { return arm.AppendJSON(dst, e, o.Size), nil },
		Send:    send,
		Format:  batch.FormatArray,
		Trigger: batch.Trigger{Count: o.Limit, Linger: o.Interval},
		OnDrop: func(d batch.Dropped) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.dropped[fmt.Sprint(d.Reason)] += int64(len(d.Events))
		},
	}
	if ahead {
		c.Spool = &batch.Spool{Dir: o.Dir, WriteAhead: true}
	}
	s.p, err = batch.New(c)
	return s, err
}

func (s *subject) Offer(e *arm.Event) (reason string) {
	switch err := s.p.Add(e); {
	case err == nil:
		return ""
	case errors.Is(err, batch.ErrFull):
		return "full"
	default:
		return err.Error()
	}
}

// Close delivers what is waiting. Undelivered events are an error, and so are
// statistics that do not add up.
func (s *subject) Close(ctx context.Context) error {
	report, err := s.p.Close(ctx)
	if err == nil && report.Undelivered > 0 {
		err = fmt.Errorf("%d events are given back", report.Undelivered)
	}
	return errors.Join(err, s.p.Stats().Balance())
}

func (s *subject) Dropped() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.dropped
}
